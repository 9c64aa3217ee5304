"""The user's code by hash."""

import hashlib
import os
from pathlib import Path

import pytest

from torchdeck.config.loader import config_from_dict
from torchdeck.config.schema import RunConfig
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.launching.facts.code_tree import code_of_run, read_code_tree


def written(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}")


def script(folder: Path, name: str = "train.py") -> RunConfig:
    return config_from_dict({"run": {"script": name}}, folder)


def test_a_run_gets_a_copy_of_all_that_lies_around_its_script(tmp_path: Path) -> None:
    written(tmp_path, "train.py", "notes.txt")
    tree, warnings = code_of_run(script(tmp_path), tmp_path, tmp_path / "home")
    assert (tree.folder, set(tree.files), warnings) == (str(tmp_path), {"train.py", "notes.txt"}, ())


def test_who_wants_no_copy_has_python_files_in_the_plan(tmp_path: Path) -> None:
    written(tmp_path, "train.py", "notes.txt")
    config = config_from_dict({"run": {"script": "train.py", "sync": "none"}}, tmp_path)
    tree, warnings = code_of_run(config, tmp_path, tmp_path / "home")
    assert (tree.folder, set(tree.files), warnings) == ("", {"train.py"}, ())
    assert tree.uncopied == 'run.sync is "none"'


def test_where_there_is_too_much_there_is_no_copy(tmp_path: Path) -> None:
    """A sparse file is as large as it says."""
    written(tmp_path, "train.py")
    with (tmp_path / "words.txt").open("wb") as file:
        file.truncate(2 << 30)
    tree, (warning,) = code_of_run(script(tmp_path), tmp_path, tmp_path / "home")
    assert (tree.folder, set(tree.files)) == ("", {"train.py"})
    assert "The biggest are words.txt (2.0 GiB), train.py" in warning
    assert tree.uncopied == warning


def test_where_there_is_nothing_nothing_is_copied(tmp_path: Path) -> None:
    config = config_from_dict({"run": {"module": "torch.utils.collect_env"}}, tmp_path)
    assert code_of_run(config, tmp_path, tmp_path / "home") == (CodeTree(), ())


def test_script_and_python_files_below_are_hashed(tmp_path: Path) -> None:
    """Only Python, relative to the working directory, with the SHA-256 of their content."""
    written(tmp_path, "train.py", "lib/a.py", "lib/deep/b.py", "notes.txt")
    tree, warnings = read_code_tree(script(tmp_path), tmp_path)
    assert set(tree.files) == {"train.py", "lib/a.py", "lib/deep/b.py"}
    assert tree.files["lib/a.py"] == hashlib.sha256(b"# lib/a.py").hexdigest()
    assert warnings == ()


def test_what_is_not_the_users_is_left_out(tmp_path: Path) -> None:
    """Hidden folders, virtual environments, node_modules, installed packages and linked folders."""
    written(
        tmp_path,
        *("train.py", ".git/x.py", "env/pyvenv.cfg", "env/lib/x.py", "node_modules/x.py"),
        *("lib/site-packages/x.py", "a/__pycache__/x.py"),
    )
    (tmp_path / "loop").symlink_to(tmp_path)
    tree, _ = read_code_tree(script(tmp_path), tmp_path)
    assert set(tree.files) == {"train.py"}


def test_a_script_elsewhere_and_without_suffix_is_hashed(tmp_path: Path) -> None:
    """By its absolute path."""
    (tmp_path / "work").mkdir()
    written(tmp_path, "bin/train", "work/a.py")
    tree, _ = read_code_tree(script(tmp_path, "bin/train"), tmp_path / "work")
    assert set(tree.files) == {str(tmp_path / "bin/train"), "a.py"}


def test_too_much_code_is_cut_and_said(tmp_path: Path) -> None:
    """The script comes first, and the warning says how many files the fingerprint covers."""
    written(tmp_path, "z.py", *(f"f{index}.py" for index in range(10)))
    tree, warnings = read_code_tree(script(tmp_path, "z.py"), tmp_path, max_files=3)
    assert len(tree.files) == 3
    assert "z.py" in tree.files
    assert "3 of its Python files" in warnings[0]
    tree, warnings = read_code_tree(script(tmp_path, "z.py"), tmp_path, max_bytes=20)
    assert 0 < len(tree.files) < 10
    assert warnings


def test_absent_things_are_no_error(tmp_path: Path) -> None:
    """Preflight speaks of them."""
    tree, warnings = read_code_tree(script(tmp_path, "absent.py"), tmp_path / "nowhere")
    assert (dict(tree.files), warnings) == ({}, ())


def test_a_built_in_recipe_has_no_code_of_the_user(tmp_path: Path) -> None:
    """Files that happen to lie beside its run file do not change the plan's fingerprint."""
    written(tmp_path, "unrelated.py")
    config = config_from_dict({"run": {"recipe": "byte-gpt"}, "training": {"steps": 1}}, tmp_path)
    assert read_code_tree(config, tmp_path)[0].files == {}


def test_a_file_whose_name_is_no_utf8_is_no_obstacle(tmp_path: Path) -> None:
    """It stands in the tree escaped, so that the plan can be written and has a fingerprint."""
    written(tmp_path, "train.py")
    (tmp_path / os.fsdecode(b"b\xff.py")).touch()
    tree, _ = read_code_tree(script(tmp_path), tmp_path)
    assert set(tree.files) == {"train.py", "b\\xff.py"}
    assert "".join(tree.files).encode("utf-8")


@pytest.mark.timeout(20)
def test_a_script_that_is_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Nor is a device read: neither is in the tree."""
    os.mkfifo(tmp_path / "pipe")
    assert read_code_tree(script(tmp_path, "./pipe"), tmp_path)[0].files == {}
    assert read_code_tree(script(tmp_path, "/dev/zero"), tmp_path)[0].files == {}
