"""Locks of small actions."""

from pathlib import Path

import pytest

from torchdeck.launching.file_lock import locked


def test_a_lock_that_is_never_let_go_is_an_error(tmp_path: Path) -> None:
    """Somebody stands still with it: who waits says so, and does not hang."""
    with (
        locked(tmp_path / "lock"),
        pytest.raises(TimeoutError, match="has held the lock"),
        locked(tmp_path / "lock", 0.05),
    ):
        pass
    with locked(tmp_path / "lock", 0.05) as file:
        assert file > 2
