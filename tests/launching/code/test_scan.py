"""Which files go."""

import os
from pathlib import Path

from support.links.code_transfer import written
from torchdeck.launching.code.scan import scan


def test_files_of_all_kinds_go_and_special_ones_do_not(tmp_path: Path) -> None:
    written(tmp_path, {"train.py": b"", "conf/a b.yaml": b"12", ".hidden/x": b""})
    os.mkfifo(tmp_path / "pipe")
    found = scan(tmp_path)
    assert [file.name for file in found.files] == [".hidden/x", "conf/a b.yaml", "train.py"]
    assert found.size == 2


def test_what_nobody_wants_stays_behind(tmp_path: Path) -> None:
    names = [
        "__pycache__/a.pyc",
        "env/pyvenv.cfg",
        "env/lib/x.py",
        "node_modules/x.py",
        "b.pyc",
        ".git/config",
    ]
    written(tmp_path, {"train.py": b"", "home/runs/x": b"", **dict.fromkeys(names, b"")})
    found = scan(tmp_path, [tmp_path / "home"])
    assert [file.name for file in found.files] == ["train.py"]
    assert found.secret == []


def test_secrets_are_named(tmp_path: Path) -> None:
    written(tmp_path, {".env": b"", "lib/.env.prod": b"", ".ssh/id_rsa": b""})
    assert sorted(scan(tmp_path).secret) == [".env", ".ssh", "lib/.env.prod"]


def test_names_that_are_no_utf8_and_newlines(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"b\xff.py")).touch()
    (tmp_path / "c\nd").touch()
    assert [file.name for file in scan(tmp_path).files] == ["b\\xff.py", "c\nd"]


def test_links_inside_stay_links_and_others_lead_where_they_led(tmp_path: Path) -> None:
    """A link to a folder is not looked through, so none leads in circles."""
    work = written(tmp_path / "work", {"lib/a.py": b"", "train.py": b""})
    (work / "loop").symlink_to(work)
    (work / "lib/up.py").symlink_to("../train.py")
    (work / "absolute.py").symlink_to(work / "lib/a.py")
    (work / "data").symlink_to("../elsewhere")
    (work / "broken").symlink_to("lib/none")
    found = scan(work)
    assert found.links == {
        "loop": ".",
        "lib/up.py": "../train.py",
        "absolute.py": "lib/a.py",
        "data": str(tmp_path / "elsewhere"),
        "broken": "lib/none",
    }
    assert found.leading_out == ["data"]
    assert len(found.files) == 2


def test_the_file_that_is_run_goes_though_rules_say_otherwise(tmp_path: Path) -> None:
    written(tmp_path, {".gitignore": b"*.py", "train.py": b"", "a.py": b""})
    found = scan(tmp_path, always=tmp_path / "train.py")
    assert [file.name for file in found.files] == [".gitignore", "train.py"]


def test_a_folder_without_end_is_given_up(tmp_path: Path) -> None:
    written(tmp_path, {f"{number}": b"" for number in range(20)})
    found = scan(tmp_path, max_looked=10)
    assert (found.whole, len(found.files)) == (False, 10)


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert scan(tmp_path / "none").files == []


def test_shell_histories_and_tokens_are_left_out_by_name(tmp_path: Path) -> None:
    names = [".bash_history", "prod.tfvars", "kaggle.json", "cache/huggingface/token", ".config/gcloud/x.db"]
    written(tmp_path, {"train.py": b"", "token": b"", **dict.fromkeys(names, b"")})
    found = scan(tmp_path)
    assert [file.name for file in found.files] == ["token", "train.py"]
    assert sorted(found.secret) == sorted([*names[:4], ".config/gcloud"])


def test_only_the_file_that_own_rules_name_goes_knowingly(tmp_path: Path) -> None:
    """Neither a wildcard nor its folder is enough; a later line takes it back; `.git` never goes."""
    names = [
        "a/.env",
        "b/.env",
        "c/.env",
        "d/server.pem",
        "e/tls.key",
        ".netrc",
        "f/.netrc",
        ".git/config",
        "data/x.key",
    ]
    rules = b"!/a/.env\n!*.pem\n!d/\n!tls.key\n!.netrc\n/f/.netrc\n!.git\n!data/\n!c/.env*\n"
    written(tmp_path, {"train.py": b"", ".torchdeckignore": rules, **dict.fromkeys(names, b"")})
    found = scan(tmp_path)
    assert [file.name for file in found.files if file.knowingly] == [".netrc", "a/.env", "e/tls.key"]
    assert sorted(found.secret) == ["b/.env", "c/.env", "d/server.pem", "data/x.key", "f/.netrc"]


def test_another_home_of_torchdeck_is_known_by_what_it_holds(tmp_path: Path) -> None:
    """Of a user, and of a node; a folder of results called `runs` is none."""
    mine = [
        "mine/runs/one/plan.json",
        "mine/shipped/ab/x.py",
        "node/runs/a/x",
        "node/leases/gpu0",
        "runs/tb/events",
    ]
    written(tmp_path, {"train.py": b"", **dict.fromkeys(mine, b"")})
    found = scan(tmp_path)
    assert [file.name for file in found.files] == ["runs/tb/events", "train.py"]
    assert sorted(found.homes) == ["mine", "node"]
    written(tmp_path, {".torchdeckignore": b"!/node/\n"})
    assert scan(tmp_path).homes == ["mine"]
