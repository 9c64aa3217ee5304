"""Reader of the Hugging Face Trainer's trainer_state.json, in a checkpoint or in the output folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchdeck.contract.bounded_file import UnreadableFileError, read_bounded
from torchdeck.contract.bounded_json import JsonError, parse_json
from torchdeck.trainers.files.growing import FileReader
from torchdeck.trainers.files.json_lines import number, numbers, whole
from torchdeck.trainers.reading import Reading

NAME = "trainer_state.json"
LIMIT = 32 * 1024 * 1024
"""Most bytes of a state: some 200,000 logged steps."""
MOST_SIBLINGS = 256
"""Other checkpoints that are looked at for the one from which the run continued."""


class TrainerState(FileReader):
    """Reads the state each time it is replaced: the whole of log_history, whose rows repeat earlier ones.

    A run that continued from a checkpoint has that one's rows at the beginning. They are another run's, and
    left out.

    Attributes:
        checkpoint: the one from which the run was told to continue, if it may lie elsewhere.
    """

    def __init__(self, path: Path, since: float = 0.0) -> None:
        """Create a reader.

        Args:
            path: the file.
            since: unix seconds at which the run began; a file that is older is another run's.
        """
        super().__init__(path)
        self.checkpoint: Path | None = None
        self._since = since
        self._seen = (0, 0)

    def read(self) -> list[Reading]:
        try:
            found = os.stat(self.path)  # noqa: PTH116 - once a second for each file: no Path is made
        except OSError:
            return []
        seen = (found.st_mtime_ns, found.st_size)
        if seen == self._seen or found.st_mtime < self._since:
            return []
        state = _load(self.path)
        if state is None:  # being written
            return []
        self._seen = seen
        history = _history(state)
        restored = self._restored(history, whole(state.get("global_step")) or 0)
        readings = list(_readings(history[restored:], state, found.st_mtime))
        readings.append(_position(state, found.st_mtime))
        return readings

    def _restored(self, history: list[Any], step: int) -> int:
        """Return how many rows are those of the checkpoint with which the run began."""
        longest = 0
        elsewhere = [] if self.checkpoint is None else [self.checkpoint / NAME]
        for path in (*_siblings(self.path), *elsewhere):
            try:
                if path.stat().st_mtime >= self._since:
                    continue
            except OSError:
                continue
            older = _load(path)
            if older is None or (whole(older.get("global_step")) or 0) >= step:
                continue
            rows = _history(older)
            if len(rows) > longest and history[: len(rows)] == rows:
                longest = len(rows)
        return longest


def _siblings(path: Path) -> Iterator[Path]:
    """Yield the states of the checkpoints next to the one at `path`, or below its folder."""
    folder = path.parent.parent if path.parent.name.startswith("checkpoint-") else path.parent
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name.startswith("checkpoint-")][:MOST_SIBLINGS]
    except OSError:
        return
    for name in names:
        other = folder / name / NAME
        if other != path:
            yield other


def _load(path: Path) -> dict[str, Any] | None:
    try:
        state = parse_json(read_bounded(path, LIMIT), limit=LIMIT, python_numbers=True)
    except (OSError, UnreadableFileError, JsonError):
        return None
    return state if isinstance(state, dict) else None


def _history(state: dict[str, Any]) -> list[Any]:
    history = state.get("log_history")
    return history if isinstance(history, list) else []


def _readings(history: list[Any], state: dict[str, Any], time: float) -> Iterator[Reading]:
    total = whole(state.get("max_steps"))
    for entry in history:
        if not isinstance(entry, dict):
            continue
        step, epoch = whole(entry.get("step")), number(entry.get("epoch"))
        values = {name: value for name, value in numbers(entry) if name not in {"step", "epoch"}}
        if step is not None and values:
            yield Reading(values, step, total or None, epoch, time)


def _position(state: dict[str, Any], time: float) -> Reading:
    step, total = whole(state.get("global_step")), whole(state.get("max_steps"))
    epoch = number(state.get("epoch"))
    return Reading({}, step, total or None, epoch, time)
