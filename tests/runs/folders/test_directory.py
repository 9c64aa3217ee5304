"""Run ids, and making and opening run directories."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.histories import controller_journal
from support.values.made_runs import line, make_run
from torchdeck.contract.journal import NewerFormatError
from torchdeck.contract.layout import RUN_ID
from torchdeck.runs.folders.run_directory import (
    RunDirectoryError,
    create_run_directory,
    new_run_id,
    open_run_directory,
)


@given(st.text(max_size=80), st.floats(0, 4e9))
def test_every_name_makes_an_id(name: str, now: float) -> None:
    """Whatever a run is called, its id is one a file system and a shell take."""
    assert RUN_ID.fullmatch(new_run_id(name, now))


def test_ids_sort_by_time() -> None:
    """An id begins with UTC time, so that names sort as runs were made."""
    assert new_run_id("b", 0.0).startswith("19700101T000000Z-b-")
    assert new_run_id("b", 1e9) < new_run_id("a", 1e9 + 1)


def test_directory_is_private_and_each_is_new(tmp_path: Path) -> None:
    """Two runs made in the same second have directories of their own, mode 0700."""
    made = [create_run_directory(tmp_path / "runs", "x", 1e9).root for _ in range(3)]
    assert len(set(made)) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}


def test_unwritable_folder_is_a_sentence() -> None:
    """Where no directory can be made, it is said what to do."""
    with pytest.raises(RunDirectoryError, match="set TORCHDECK_HOME"):
        create_run_directory(Path("/proc/1/nothing"), "x", 0.0)


def test_newer_run_is_refused_with_a_sentence(tmp_path: Path) -> None:
    """A run directory of a newer format says so."""
    layout = make_run(tmp_path, [])
    layout.journal.write_text(line(controller_journal()[0], version=99))
    with pytest.raises(NewerFormatError, match="update Torchdeck"):
        open_run_directory(layout.root)


def test_other_folders_are_no_runs(tmp_path: Path) -> None:
    """A folder without plan and journal, and one that is not there, are not opened."""
    with pytest.raises(RunDirectoryError, match="not a run directory"):
        open_run_directory(tmp_path)
    with pytest.raises(RunDirectoryError, match="no run directory"):
        open_run_directory(tmp_path / "none")
