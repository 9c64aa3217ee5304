"""Locks of small actions."""

from pathlib import Path

import pytest

from torchdeck.contract.lock_file import changing, locked


def test_a_lock_that_is_never_let_go_is_an_error(tmp_path: Path) -> None:
    """Someone is stalled with it: who waits says so, and does not hang."""
    with (
        locked(tmp_path / "lock"),
        pytest.raises(TimeoutError, match="has held the lock"),
        locked(tmp_path / "lock", 0.05),
    ):
        pass
    with locked(tmp_path / "lock", 0.05) as file:
        assert file > 2


def test_a_file_that_is_replaced_is_changed_by_one_at_a_time(tmp_path: Path) -> None:
    """The lock outlives the file; the error names the file, not the lock."""
    path = tmp_path / "notes.json"
    with changing(path):
        path.write_text("new")
        path.rename(tmp_path / "other")
        with (
            pytest.raises(TimeoutError, match=r"has been changing .*/notes\.json for 0\.05 s"),
            changing(path, 0.05),
        ):
            pass
    with changing(path, 0.05):
        assert (tmp_path / ".notes.json.lock").exists()
