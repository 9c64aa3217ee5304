"""Readers of files with one JSON object per line: LLaMA-Factory, ms-swift, verl, torchtitan, scripts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from torchdeck.contract.bounded_json import parse_json
from torchdeck.contract.run_states import RankPhase
from torchdeck.trainers.files.growing import LINE_LIMIT, LineFile
from torchdeck.trainers.reading import Reading

STEP_NAMES = ("step", "global_step", "current_steps", "iteration", "iter", "steps", "train_step", "_step")
"""Names of the step in a record, the best first."""
_TOTAL_NAMES = ("total_steps", "max_steps")
_TIME_NAMES = ("timestamp", "_timestamp", "time", "wall_time", "t", "ts")
_NO_METRICS = frozenset(
    (
        *STEP_NAMES,
        *_TOTAL_NAMES,
        *_TIME_NAMES,
        "epoch",
        "percentage",
        "elapsed_time",
        "remaining_time",
        "rank",
    )
)
_OF_TOTAL = ("global_step/max_steps", "iteration")
"""ms-swift: "10/100"."""
_FRACTION = re.compile(r"(\d{1,15})/(\d{1,15})")
EARLIEST = 1e9
"""Unix seconds (2001) before which a number is not the time of a record, but that since its start."""


class JsonLines(LineFile):
    """Any program's records: a step, and numbers by name.

    LLaMA-Factory's `trainer_log.jsonl` (current_steps, total_steps), ms-swift's `logging.jsonl`
    ("global_step/max_steps": "10/100"), verl's file logger ({"step": 1, "data": {...}}), and such of scripts.
    """

    def first(self) -> Reading | None:
        """Return what the first line reports; None for nothing."""
        line, end, _ = self._file.piece(LINE_LIMIT).partition(b"\n")
        try:
            return self.reading(line) if end else None
        except (ValueError, TypeError, OverflowError, KeyError):
            return None

    def reading(self, line: bytes) -> Reading | None:
        record = parse_json(line, limit=LINE_LIMIT, python_numbers=True)
        if not isinstance(record, dict):
            return None
        step, total = _step_of(record)
        data = record.get("data")
        values = dict(numbers(record)) | (dict(numbers(data)) if isinstance(data, dict) else {})
        if "current_steps" in record and "throughput" in values:
            values["tokens_per_s"] = values.pop("throughput")  # LLaMA-Factory counts tokens
        epoch = number(record.get("epoch"))
        for name in _NO_METRICS:
            values.pop(name, None)
        if not values and step is None:
            return None
        return Reading(values, step, total, epoch, time_of(record))


class TitanLog(LineFile):
    """torchtitan's structured log of one rank: spans that begin and end, and single values."""

    _PHASES: Mapping[str, RankPhase] = {
        "checkpoint_load_start": RankPhase.LOADING,
        "checkpoint_load_end": RankPhase.TRAINING,
        "eval_start": RankPhase.EVALUATING,
        "eval_end": RankPhase.TRAINING,
        "checkpoint_save_start": RankPhase.SAVING,
        "checkpoint_save_end": RankPhase.TRAINING,
    }

    def reading(self, line: bytes) -> Reading | None:
        record = parse_json(line, limit=LINE_LIMIT, python_numbers=True)
        if not isinstance(record, dict):
            return None
        kind, step = record.get("log_type_name"), whole(record.get("step"))
        microseconds = number(record.get("time_us"))
        time = None if microseconds is None else microseconds / 1e6
        if kind == "metric_value":
            name, value = record.get("event_name"), number(record.get("value"), finite=False)
            return (
                Reading({name: value}, step, time=time)
                if isinstance(name, str) and value is not None
                else None
            )
        if kind == "step_end":
            return Reading(step=step, time=time, phase=RankPhase.TRAINING)
        phase = self._PHASES.get(kind) if isinstance(kind, str) else None
        return None if phase is None else Reading(time=time, phase=phase)


def numbers(record: Mapping[Any, Any], prefix: str = "", depth: int = 3) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a record by name; those of objects in it as `outer/inner`."""
    for name, value in record.items():
        if not isinstance(name, str):
            continue
        if isinstance(value, dict) and depth and name != "data":
            yield from numbers(value, f"{prefix}{name}/", depth - 1)
        elif (found := number(value, finite=False)) is not None:
            yield prefix + name, found


def number(value: object, *, finite: bool = True) -> float | None:
    """Return a JSON value as a number; None if it is none, or not finite and has to be."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) or not finite else None


def whole(value: object) -> int | None:
    """Return a JSON value as a step; None if it can be none."""
    found = number(value)
    return int(found) if found is not None and 0 <= found < 2**62 and found == int(found) else None


def time_of(record: Mapping[str, object]) -> float | None:
    """Return the time of a record in unix seconds; None if it has none."""
    for name in _TIME_NAMES:
        found = number(record.get(name))
        if found is not None and EARLIEST <= found < 1e11:
            return found
    return None


def _step_of(record: Mapping[str, object]) -> tuple[int | None, int | None]:
    for name in _OF_TOTAL:
        text = record.get(name)
        match = _FRACTION.fullmatch(text) if isinstance(text, str) else None
        if match:
            return int(match[1]), int(match[2])
    step = next((found for name in STEP_NAMES if (found := whole(record.get(name))) is not None), None)
    total = next((found for name in _TOTAL_NAMES if (found := whole(record.get(name))) is not None), None)
    return step, total or None
