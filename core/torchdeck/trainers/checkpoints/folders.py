"""Checkpoints that are folders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from pathlib import Path

from torchdeck.contract.bounded_file import open_regular, read_bounded
from torchdeck.contract.bounded_json import parse_json
from torchdeck.trainers.checkpoints.checkpoint_kinds import CheckpointKind, TrainerCheckpoint
from torchdeck.trainers.checkpoints.pickled_step import MOST_STEPS

_STATE_LIMIT = 32 << 20
"""Bytes of a trainer_state.json that is parsed; some 200,000 steps can be logged in it."""
_STATE_END = 64
"""Bytes from the end of a longer one, which is whole if they close the outermost object."""
_TRACKER_LIMIT = 4096
"""Bytes of a file that names the newest checkpoint."""
_HF_SENTINEL = "checkpoint-is-incomplete.txt"
_TITAN_SIGNS = (".metadata", "model.safetensors.index.json")
_TRACKER = "latest_checkpointed_iteration.txt"
_RANDOM_STATES = re.compile(r"random_states_\d+\.pkl")
_TORCHDECK = re.compile(r"step_\d{8,}|final")
"""Name of Torchdeck's own checkpoints, which have a manifest once they are complete."""
_STEP_IN_NAME = re.compile(r"(?:^checkpoint-|step[-_=]?)0*(\d{1,18})(?!\d)")


def folder_checkpoint(folder: Path, names: Collection[str]) -> TrainerCheckpoint | None:
    """Return the checkpoint that `folder` is, complete or not; None if it is none of a known kind.

    Args:
        folder: to be judged.
        names: of the entries in it.
    """
    for pattern, judge in _BY_NAME:
        match = pattern.fullmatch(folder.name)
        if match is not None:
            found = judge(folder, names, int(match.group(1)))
            if found is not None:
                return found
    if any(_RANDOM_STATES.fullmatch(name) for name in names):
        return _accelerate(folder, names)
    is_own = "manifest.json" in names or _TORCHDECK.fullmatch(folder.name)
    if not is_own and ".metadata" in names and any(name.endswith(".distcp") for name in names):
        number = _STEP_IN_NAME.search(folder.name)
        step = int(number.group(1)) if number else None
        return _complete(folder, CheckpointKind.DISTRIBUTED, step, ".metadata")
    return None


def _hugging_face(folder: Path, names: Collection[str], step: int) -> TrainerCheckpoint | None:
    if any(_RANDOM_STATES.fullmatch(name) for name in names):
        return None
    kind = CheckpointKind.HUGGING_FACE
    if _HF_SENTINEL in names:
        return _incomplete(folder, kind, step, f"{_HF_SENTINEL} is still there")
    if "trainer_state.json" not in names:
        return _incomplete(folder, kind, step, "there is no trainer_state.json yet")
    own = _global_step(folder / "trainer_state.json", step)
    if own is None:
        return _incomplete(folder, kind, step, "trainer_state.json is not whole")
    return _complete(folder, kind, own, "trainer_state.json")


def _global_step(state: Path, named: int) -> int | None:
    """Return the step in the file, or `named` if it is too long to parse; None if the file is not whole."""
    try:
        with open_regular(state) as file:
            if os.fstat(file.fileno()).st_size > _STATE_LIMIT:
                file.seek(-_STATE_END, os.SEEK_END)
                return named if file.read(_STATE_END).rstrip().endswith(b"}") else None
            content = file.read(_STATE_LIMIT + 1)
        step = parse_json(content, limit=_STATE_LIMIT, python_numbers=True)["global_step"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return step if isinstance(step, int) and 0 <= step < MOST_STEPS else None


def _accelerate(folder: Path, names: Collection[str]) -> TrainerCheckpoint:
    # save_state writes these after models, optimizers and schedulers
    number = _STEP_IN_NAME.search(folder.name)
    step = int(number.group(1)) if number else None
    if all(_RANDOM_STATES.fullmatch(name) for name in names):  # the others may be on another node's disk
        why = "there are no weights in it, only the ranks' random states"
        return TrainerCheckpoint(str(folder), CheckpointKind.ACCELERATE, step, _changed(folder), why)
    last = max(name for name in names if _RANDOM_STATES.fullmatch(name))
    return _complete(folder, CheckpointKind.ACCELERATE, step, last)


def _torchtitan(folder: Path, names: Collection[str], step: int) -> TrainerCheckpoint:
    sign = next((name for name in _TITAN_SIGNS if name in names), "")
    if not sign:
        why = "there is neither .metadata nor model.safetensors.index.json yet"
        return _incomplete(folder, CheckpointKind.TORCHTITAN, step, why)
    return _complete(folder, CheckpointKind.TORCHTITAN, step, sign)


TRACKERS = {
    CheckpointKind.DEEPSPEED: "latest",
    CheckpointKind.VERL: _TRACKER,
    CheckpointKind.MEGATRON: _TRACKER,
}
"""File next to the checkpoints of a kind that names the newest complete one."""


def _tracked(kind: CheckpointKind) -> Callable[[Path, Collection[str], int], TrainerCheckpoint]:
    """Judge a folder whose parent has a file that names the newest complete checkpoint."""
    tracker = TRACKERS[kind]

    def judge(folder: Path, names: Collection[str], step: int) -> TrainerCheckpoint:
        del names
        newest = _number_in(folder.parent / tracker)
        if newest is None or newest < step:
            return _incomplete(folder, kind, step, f"{tracker} does not name it yet")
        if newest == step:
            return _complete(folder, kind, step, f"../{tracker}")
        return TrainerCheckpoint(str(folder), kind, step, _changed(folder))

    return judge


def _number_in(tracker: Path) -> int | None:
    try:
        text = read_bounded(tracker, _TRACKER_LIMIT).decode(errors="replace")
    except OSError:
        return None
    number = re.search(r"(\d+)\s*$", text)
    return int(number.group(1)) if number else None


_BY_NAME: tuple[
    tuple[re.Pattern[str], Callable[[Path, Collection[str], int], TrainerCheckpoint | None]], ...
] = (
    (re.compile(r"checkpoint-(\d{1,18})"), _hugging_face),
    (re.compile(r"step-(\d{1,18})"), _torchtitan),
    (re.compile(r"global_step(\d{1,18})"), _tracked(CheckpointKind.DEEPSPEED)),
    (re.compile(r"global_step_(\d{1,18})"), _tracked(CheckpointKind.VERL)),
    (re.compile(r"iter_(\d{7,18})"), _tracked(CheckpointKind.MEGATRON)),
)


def _complete(folder: Path, kind: CheckpointKind, step: int | None, sign: str) -> TrainerCheckpoint:
    return TrainerCheckpoint(str(folder), kind, step, _changed(folder / sign))


def _incomplete(folder: Path, kind: CheckpointKind, step: int, why: str) -> TrainerCheckpoint:
    return TrainerCheckpoint(str(folder), kind, step, _changed(folder), why)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
