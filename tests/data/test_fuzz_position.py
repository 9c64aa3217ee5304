"""Hostile saved positions."""

from __future__ import annotations

import contextlib
from pathlib import Path

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from torchdeck.data.checkpoint_position import CheckpointPosition
from torchdeck.data.order import PositionError

POSITION = {"v": 1, "epoch": 0, "microbatch_idx": 3, "global_step": 4}


def read_position(case: bytes, place: Path) -> None:
    path = place / "position.json"
    path.write_bytes(case)
    with contextlib.suppress(PositionError):
        found = CheckpointPosition.load(path)
        assert max(found.to_json().values()) < 2**63


def test_saved_positions() -> None:
    read_all(read_position, hostile.documents(POSITION))
