"""Room that runs and their checkpoints take on this machine, and checkpoints that a rule would remove."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from torchdeck.agent.probe.run_folders import room_of
from torchdeck.contract.refusal import Refusal
from torchdeck.distributed.checkpoints.retention import Retention, is_named_by_step
from torchdeck.quantities import counted
from torchdeck.runs.folders.checkpoints import RunCheckpoint, by_directory, retention_of, run_checkpoints
from torchdeck.runs.table.row import Row


class Rule(NamedTuple):
    """Checkpoints to keep of each run; the newest and `final` always stay."""

    keep_last: int = 1
    keep_best: int = 0
    keep_every: int = 0
    """Steps; 0: none is kept for its step."""


class RunRoom(NamedTuple):
    """Bytes of one run, and its checkpoints, the largest first."""

    row: Row
    room: int
    checkpoints: tuple[RunCheckpoint, ...]
    retention: Retention
    """The run's own rule, which names the metric of the best."""
    sharing: tuple[Row, ...] = ()
    """Other runs with the same checkpoint directory."""

    @property
    def why_kept(self) -> str:
        """Return why no checkpoint of it may be removed; empty if some may."""
        if why := _why_held(self.row):
            return f"the run {why}"
        held = ((row, why) for row in self.sharing if (why := _why_held(row)))
        return next((f"{row.label}, which has the same checkpoint folder, {why}" for row, why in held), "")

    def why_kept_by(self, rule: Rule) -> str:
        """Return why a rule removes no checkpoint of it whatever their number; empty if it may.

        With fewer checkpoints that have the metric than the best to keep, the best are not known.
        """
        if self.why_kept:
            return self.why_kept
        metrics, metric = _metrics(self), self.retention.best_metric
        measured = sum(metric in each for each in metrics.values())
        if measured >= min(rule.keep_best, len(metrics)):
            return ""
        if not measured:
            return f"no checkpoint has {metric}"
        return f"only {measured:,} of {counted(len(metrics), 'checkpoint')} with {metric}"


def _why_held(row: Row) -> str:
    if row.note.pinned:
        return "is pinned"
    return "is not over" if row.entry.view is None or not row.entry.view.is_over else ""


class Surplus(NamedTuple):
    """Checkpoint that a rule does not keep."""

    run: RunRoom
    checkpoint: RunCheckpoint

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return self.checkpoint.info.size


def measured(
    rows: Sequence[Row],
    progress: Callable[[str], object] = lambda _: None,
    check: Callable[[], None] = lambda: None,
    *,
    among: Sequence[Row] = (),
) -> tuple[RunRoom, ...]:
    """Return the room of runs, the largest first.

    Args:
        rows: the runs.
        progress: called with a sentence for each run.
        check: called for each file; an exception from it ends the measurement.
        among: all runs, if `rows` are not; some may have the same checkpoint directory.
    """
    found = []
    every = {row.entry.layout: row for row in among or rows}
    groups = by_directory(every)
    sharing = {
        layout: [each for each in group if each != layout] for group in groups.values() for layout in group
    }
    for row in rows:
        progress(f"measuring {row.label}")
        layout = row.entry.layout
        checkpoints: tuple[RunCheckpoint, ...] = ()
        with suppress(Refusal, OSError):
            own = (each for each in run_checkpoints(layout) if each.script is None or not each.script.node)
            checkpoints = tuple(sorted(own, key=lambda each: -each.info.size))
        with suppress(OSError):
            room = room_of(layout.root, check)
            others = tuple(every[each] for each in sharing.get(layout, ()))
            found.append(RunRoom(row, room, checkpoints, retention_of(layout) or Retention(), others))
    return tuple(sorted(found, key=lambda each: -each.room))


def surplus(runs: Sequence[RunRoom], rule: Rule) -> tuple[Surplus, ...]:
    """Return the checkpoints that a rule would remove, of runs that `why_kept_by` does not except.

    Only complete checkpoints that Torchdeck's trainer wrote count: a script's own are left to the script.
    """
    # what one of several runs with the same directory keeps, all keep
    kept = {path for run in runs for path in _kept(run, rule)}
    found = {}
    for run in runs:
        for each in sorted(filter(_counts, run.checkpoints), key=lambda each: each.info.step):
            path = _place(each)
            if path not in kept and path not in found:
                found[path] = Surplus(run, each)
    return tuple(found.values())


def _place(found: RunCheckpoint) -> Path:
    return Path(os.path.realpath(found.info.path))


def _counts(found: RunCheckpoint) -> bool:
    info = found.info
    is_own = found.script is None and not found.is_leftover and is_named_by_step(info)
    return is_own and info.complete and info.manifest is not None


def _metrics(run: RunRoom) -> dict[int, Mapping[str, float]]:
    """Return the metrics of the checkpoints that count, by step."""
    return {
        each.info.step: each.info.manifest.current_metrics
        for each in run.checkpoints
        if _counts(each) and each.info.manifest is not None
    }


def _kept(run: RunRoom, rule: Rule) -> set[Path]:
    if run.why_kept_by(rule):
        return {_place(each) for each in run.checkpoints}
    retention = replace(
        run.retention,
        keep_last=max(1, rule.keep_last),
        keep_best=max(0, rule.keep_best),
        keep_every=rule.keep_every or None,
    )
    steps = retention.kept(_metrics(run))
    return {_place(each) for each in run.checkpoints if _counts(each) and each.info.step in steps}
