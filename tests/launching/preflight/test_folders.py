"""Folders that a run works in, saves to, and keeps its home in; also where this user may not look."""

from pathlib import Path

import pytest

from support.system.closed_folder import closed_folder
from support.values.checked_config import CheckedConfig, assert_refused
from torchdeck.launching.preflight import failures
from torchdeck.launching.preflight.disk_space import check_checkpoint_folder


def test_a_missing_working_directory_is_named(checked: CheckedConfig) -> None:
    """The ranks could not even start."""
    run = {"recipe": "byte-gpt", "working_dir": "nowhere"}
    results = checked.checks(run, training={"steps": 1})
    assert_refused(results["working_dir"], "nowhere", "does not exist", "run.working_dir")


@pytest.mark.parametrize("name", ['a"b', "a:b", "a\\b", "a\nb"])
def test_a_home_that_breaks_paths_is_refused(checked: CheckedConfig, name: str) -> None:
    """The home's path stands in PYTHONPATH and in JSON."""
    checked.home = checked.folder / name
    assert_refused(checked.script()["home"], "TORCHDECK_HOME")


def test_a_home_that_others_may_write_in_is_refused(checked: CheckedConfig) -> None:
    """Code of ours runs from there."""
    checked.home.mkdir()
    checked.home.chmod(0o777)
    check = checked.script()["home"]
    assert check.status == "failed"
    assert "chmod go-w" in str(check)


def test_a_file_in_the_place_of_a_folder_is_refused(checked: CheckedConfig) -> None:
    """For the home and for checkpoints alike."""
    (checked.folder / "file").touch()
    checked.home = checked.folder / "file/home"
    results = checked.script(checkpoint={"directory": "file"})
    assert_refused(results["home"], "is not a folder")
    assert_refused(results["checkpoint folder"], "is not a folder", "checkpoint.directory")


def test_an_unwritable_folder_is_refused(checked: CheckedConfig) -> None:
    """In /proc not even the superuser can write."""
    checked.home = Path("/proc/torchdeck")
    results = checked.script(checkpoint={"directory": "/proc/self"})
    assert_refused(results["home"], "cannot be made in /proc", "TORCHDECK_HOME")
    assert_refused(results["checkpoint folder"], "/proc/self is not writable", "checkpoint.directory")


def test_an_unwritable_folder_is_said_once(checked: CheckedConfig) -> None:
    """No second sentence about its room, or about checkpoints in it."""
    for directory in ("/proc/torchdeck", "train.py"):
        (checked.folder / "train.py").touch()
        found = checked.recipe(checkpoint={"directory": directory})
        assert [check.name for check in failures(list(found.values()))] == ["checkpoint folder"]


def test_looking_leaves_nothing_behind(checked: CheckedConfig) -> None:
    """Preflight writes to see whether it can, and takes it away."""
    checked.home.mkdir(mode=0o700)
    (checked.folder / "ck").mkdir()
    checked.script(checkpoint={"directory": "ck"})
    assert sorted(path.name for path in checked.folder.rglob("*")) == ["ck", "home", "train.py"]


def test_a_checkpoint_folder_open_to_all_is_a_warning(checked: CheckedConfig) -> None:
    """Shared on purpose perhaps; said all the same."""
    (checked.folder / "ck").mkdir()
    (checked.folder / "ck").chmod(0o777)
    check = checked.recipe(checkpoint={"directory": "ck"})["checkpoint folder"]
    assert (check.status, "chmod o-w" in check.fix) == ("warning", True)


def test_a_folder_in_one_that_may_not_be_entered_is_refused() -> None:
    """With a sentence: whether it is there, no one can tell."""
    with closed_folder() as closed:
        checks = list(check_checkpoint_folder(str(closed / "a" / "b"), "localhost"))
    (check,) = checks
    assert (check.name, check.status) == ("checkpoint folder", "failed")
    assert f"{closed / 'a' / 'b'} cannot be made in {closed}" in check.what
    assert "checkpoint.directory" in check.fix
