"""Hostile trainer.json."""

from __future__ import annotations

import contextlib
from pathlib import Path

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.files.trainer_file import TRAINER_NAME, read_trainer_file

TRAINER = {
    "v": 1,
    "step": 4,
    "position": {"v": 1, "epoch": 0, "next": 3},
    "scheduler": {"last_epoch": 4},
    "scaler": {},
    "extra": {"best": 0.5},
    "model": {"layer.weight": [[2, 3], "float32"]},
    "optimizers": [{"groups": [{"lr": 0.1}], "state": {"layer.weight": {"exp_avg": {"shape": [2, 3]}}}}],
}


def read_trainer_state(case: bytes, place: Path) -> None:
    (place / TRAINER_NAME).write_bytes(case)
    with contextlib.suppress(CheckpointError):
        read_trainer_file(place).check_sizes(1 << 30)


def test_trainer_files() -> None:
    read_all(read_trainer_state, hostile.documents(TRAINER))
