"""When the training that is watched began: by its process, or by the newest files in its folder."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.processes import PROC, ProcessIdentity
from torchdeck.trainers.files.metric_file_search import Found
from torchdeck.trainers.files.old_runs import LIGHTNING, OldRun, find_old_runs

_CHECKPOINT = re.compile(r"checkpoint-(\d{1,12})")
EARLIEST = 6e8
"""Unix seconds (1989) before which a time is none of a training."""


class Span(NamedTuple):
    """Time in which a file was written; unix seconds."""

    first: float
    last: float


def process_start(process: ProcessIdentity) -> float:
    """Return when a process of this boot began, unix seconds."""
    for line in (PROC / "stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) + process.start_ticks / os.sysconf("SC_CLK_TCK")
    return time.time()


def folder_start(folder: Path) -> float | None:
    """Return when the newest training in a folder began, as far as its files tell; None if there is none."""
    runs = [run for run in find_old_runs(folder)[0] if run.stored is None]
    if not runs:
        return None
    newest = max(runs, key=_changed)
    spans = [*_spans(newest), *_states(newest.files)]
    return max(EARLIEST, began(spans))


def began(spans: Sequence[Span]) -> float:
    """Return the first moment of the newest files: of those that overlap with the newest, or with such."""
    newest = max(spans, key=lambda span: span.last)
    first = newest.first
    for span in sorted(spans, key=lambda span: span.last, reverse=True):
        if span.last >= first:
            first = min(first, span.first)
    return first


def _changed(run: OldRun) -> float:
    return max(file.changed for file in run.files)


def _spans(run: OldRun) -> Iterator[Span]:
    """Yield the spans of files that are appended to."""
    times: dict[Path, float] = {}
    for file, reading in run.first():
        if reading.time is not None and reading.time >= EARLIEST:
            times[file.path] = min(reading.time, times.get(file.path, reading.time))
    for file in run.files:
        if not file.kind.repeats:
            first = times.get(file.path, file.changed)
            if run.program == LIGHTNING:  # its table has no times; its settings are written at the start
                first = min(first, _oldest_beside(file.path, first))
            yield Span(min(first, file.changed), file.changed)


def _oldest_beside(path: Path, default: float) -> float:
    try:
        with os.scandir(path.parent) as entries:
            return min((entry.stat().st_mtime for entry in entries if entry.is_file()), default=default)
    except OSError:
        return default


def _states(files: Sequence[Found]) -> Iterator[Span]:
    """Yield spans of checkpoints with a trainer_state.json: while their steps rise it is one training."""
    states = sorted((file for file in files if file.kind.repeats), key=lambda file: file.changed)
    span, before = None, -1
    for file in states:
        match = _CHECKPOINT.fullmatch(file.path.parent.name)
        step = int(match[1]) if match else before + 1  # the one beside the checkpoints is written last
        if span is not None and step > before:
            span = span._replace(last=file.changed)
        else:
            if span is not None:
                yield span
            span = Span(file.changed, file.changed)
        before = step
    if span is not None:
        yield span
