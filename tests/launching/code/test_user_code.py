"""What stands in a plan, and what a person is told."""

import hashlib
from pathlib import Path

from support.links.code_transfer import code_of, written
from torchdeck.config.loader import config_from_dict
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.launching.code.user_code import read_user_code

PRINT = hashlib.sha256(b"print(1)").hexdigest()


def test_the_working_directory_goes(tmp_path: Path) -> None:
    work = written(
        tmp_path / "work", {"train.py": b"print(1)", "run.sh": b"", "conf.yaml": b"", ".env": b"SECRET"}
    )
    (work / "run.sh").chmod(0o755)
    (work / "l").symlink_to("train.py")
    tree = code_of(work, tmp_path / "home")
    assert (tree.folder, tree.size) == (str(work), 8)
    assert set(tree.files) == {"train.py", "run.sh", "conf.yaml", "l"}
    assert tree.files["train.py"] == PRINT
    assert tree.files["run.sh"].endswith(" x")
    assert tree.files["l"] == "-> train.py"


def test_of_a_script_elsewhere_its_folder_goes(tmp_path: Path) -> None:
    """Above the working directory, with that in it, and beside it."""
    written(
        tmp_path, {"p/train.py": b"", "p/lib.py": b"", "p/conf/run.toml": b"", "q/train.py": b"", "x.py": b""}
    )
    home = tmp_path / "home"
    above = code_of(tmp_path / "p/conf", home, "../train.py")
    assert (above.folder, set(above.files)) == (str(tmp_path / "p"), {"train.py", "lib.py", "conf/run.toml"})
    beside = code_of(tmp_path / "p/conf", home, "../../q/train.py")
    assert (beside.folder, set(beside.files)) == (str(tmp_path / "q"), {"train.py"})


def test_checkpoints_and_torchdecks_home_stay_behind(tmp_path: Path) -> None:
    written(tmp_path, {"train.py": b"", "saved/step_1/model": b"", "home/runs/a/plan.json": b""})
    config = config_from_dict({"run": {"script": "train.py"}, "checkpoint": {"directory": "saved"}}, tmp_path)
    tree, _ = read_user_code(config, tmp_path, tmp_path / "home")
    assert tree is not None
    assert set(tree.files) == {"train.py"}


def test_more_than_goes_is_said_with_the_biggest(tmp_path: Path) -> None:
    written(tmp_path, {"train.py": b"", "data/big.bin": bytes(5000), "a.txt": b"12"})
    config = config_from_dict({"run": {"script": "train.py"}}, tmp_path)
    for files, size in ((2, 1 << 30), (100, 4000)):
        tree, (said,) = read_user_code(config, tmp_path, tmp_path / "home", max_files=files, max_bytes=size)
        assert tree is None
        assert "3 files of 4.9 KiB" in said
        assert "The biggest are data/big.bin (4.9 KiB), a.txt (2 B)" in said
        assert ".torchdeckignore" in said


def test_a_person_is_told_what_does_not_go(tmp_path: Path) -> None:
    """By name in the list of files; by content in a warning, too, as no one expects it."""
    token = b"vault_token: " + b"hv" + b"s." + PRINT[:40].encode() + b"\n"
    files = {
        "train.py": b"",
        "sign.py": b"-----BEGIN PRIVATE KEY-----\n",
        "conf.yaml": b"a: 1\n" + token,
        ".env": b"",
    }
    written(tmp_path, {**files, "old/runs/a/plan.json": b"", "old/shipped/x": b""})
    (tmp_path / "data").symlink_to("/nowhere/data")
    config = config_from_dict({"run": {"script": "train.py"}}, tmp_path)
    tree, (links, secret, home) = read_user_code(config, tmp_path, tmp_path / "home")
    assert tree is not None
    assert set(tree.files) == {"train.py", "data"}
    assert tree.left_out == {
        ".env": "its name is typical of credentials",
        "conf.yaml": "holds a Vault token (line 2)",
        "old": "a home of Torchdeck",
        "sign.py": "holds a private key",
    }
    assert "data: links to targets outside" in links
    assert "conf.yaml holds a Vault token (line 2), sign.py holds a private key" in secret
    assert "!conf.yaml into .torchdeckignore" in secret
    assert "old: a home of Torchdeck" in home


def test_credentials_that_are_named_go(tmp_path: Path) -> None:
    token = b"hv" + b"s." + PRINT[:40].encode()
    rules = b"!conf.yaml\n!.env\n"
    work = written(
        tmp_path / "work", {"train.py": b"", "conf.yaml": token, ".env": token, ".torchdeckignore": rules}
    )
    tree = code_of(work, tmp_path / "home")
    assert set(tree.files) == {"train.py", "conf.yaml", ".env", ".torchdeckignore"}
    assert tree.knowingly == (".env", "conf.yaml")
    assert tree.left_out == {}


def test_a_built_in_recipe_executes_nothing_of_the_users(tmp_path: Path) -> None:
    written(tmp_path, {"unrelated.py": b""})
    config = config_from_dict({"run": {"recipe": "byte-gpt"}, "training": {"steps": 1}}, tmp_path)
    assert read_user_code(config, tmp_path, tmp_path / "home") == (CodeTree(), ())
