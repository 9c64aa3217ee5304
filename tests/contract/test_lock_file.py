"""Locks that last as long as their holder."""

import os
from pathlib import Path

from torchdeck.contract.atomic import read_json
from torchdeck.contract.lock_file import is_held, try_lock


def test_one_at_a_time_and_the_owner_is_named(tmp_path: Path) -> None:
    """A second one is told so at once and finds who has it; a copy of the descriptor holds on."""
    path = tmp_path / "x.lock"
    first = try_lock(path, {"pid": 12345678901})
    assert first is not None
    assert try_lock(path, {"pid": 2}) is None
    assert read_json(path) == {"pid": 12345678901}
    copy = os.dup(first)
    os.close(first)
    assert try_lock(path, {"pid": 2}) is None
    os.close(copy)
    second = try_lock(path, {"pid": 2})
    assert second is not None
    assert read_json(path) == {"pid": 2}
    os.close(second)


def test_whether_it_is_held_is_seen_without_taking_it(tmp_path: Path) -> None:
    """A file that is not there is not made."""
    path = tmp_path / "x.lock"
    assert not is_held(path)
    assert not path.exists()
    held = try_lock(path)
    assert held is not None
    assert is_held(path)
    os.close(held)
    assert not is_held(path)
