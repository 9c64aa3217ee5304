"""Named pipes, devices, folders and files of the kernel in place of a checkpoint's files: each reader says so
at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from torchdeck.trainers.checkpoints.checkpoint_kinds import TrainerCheckpoint
from torchdeck.trainers.checkpoints.checkpoint_search import find_checkpoints, look_at
from torchdeck.trainers.checkpoints.files import file_problem
from torchdeck.trainers.checkpoints.pickled_step import step_inside
from torchdeck.trainers.checkpoints.soundness import soundness_of

pytestmark = pytest.mark.timeout(20)

MAKERS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "kernel": lambda path: path.symlink_to("/proc/self/status"),
}
WHY = {"pipe": "is a named pipe", "device": "is a character device", "folder": "is a folder", "kernel": ""}


@pytest.fixture(params=list(MAKERS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def put(kind: str, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    MAKERS[kind](path)
    return path


def found(path: Path) -> TrainerCheckpoint:
    """What is at `path`, by a look at it and by a search around it."""
    (searched,) = find_checkpoints([path.parent])
    assert searched == look_at(path)
    return searched


def test_trainer_state(kind: str, tmp_path: Path) -> None:
    put(kind, tmp_path / "checkpoint-5/trainer_state.json")
    assert found(tmp_path / "checkpoint-5").incomplete == "trainer_state.json is not whole"


@pytest.mark.parametrize(("folder", "tracker"), [
    ("global_step5", "latest"), ("iter_0000005", "latest_checkpointed_iteration.txt"),
])  # fmt: skip
def test_tracker(kind: str, tmp_path: Path, folder: str, tracker: str) -> None:
    (tmp_path / folder).mkdir()
    put(kind, tmp_path / tracker)
    assert found(tmp_path / folder).incomplete == f"{tracker} does not name it yet"


@pytest.mark.parametrize("name", ["ckpt.pt", "step=5.ckpt", "model_5.safetensors"])
def test_weights(kind: str, tmp_path: Path, name: str) -> None:
    path = put(kind, tmp_path / name)
    problem = file_problem(path)
    assert WHY[kind] in problem
    assert problem
    seen = look_at(path)
    assert seen is None or seen.incomplete == problem
    assert find_checkpoints([tmp_path]) == []
    assert step_inside(path) is None


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "optimizer.pt"])
def test_verification(kind: str, tmp_path: Path, name: str) -> None:
    """Of a checkpoint that is complete otherwise; a folder in it is gone through, not read."""
    whole = tmp_path / "checkpoint-5"
    whole.mkdir()
    (whole / "trainer_state.json").write_text('{"global_step": 5}')
    put(kind, whole / name)
    problems = soundness_of(whole).problems
    if kind == "folder":
        assert problems == []
        return
    (problem,) = problems
    assert problem.startswith(f"checkpoint-5/{name}: it ")
    assert WHY[kind] in problem
