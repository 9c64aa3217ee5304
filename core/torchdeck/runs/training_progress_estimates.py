"""Total number of training steps and estimated time left, from files on disk."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.quantities import duration

if TYPE_CHECKING:
    from torchdeck.metrics import RunMetrics

PLAIN = 600.0
"""Remaining time in seconds from which it is shown without seconds."""
ROWS = 1024
"""Maximum number of newest rows used for the pace."""
PACE_SECONDS = 300.0
"""Maximum age of rows used for the pace; `FEWEST` are always used."""
FEWEST = 32
LONGEST_PAUSE = 100.0
"""A pause counts as at most this many usual steps: an evaluation counts, a suspended machine does not."""


def time_left(seconds: float) -> str:
    """Return `42 s`, `3 min 20 s`, `37 min`, `2 h 5 min`: no more precise than an estimate can be."""
    if seconds < PLAIN:
        return duration(seconds)
    return duration(60.0 * round(seconds / 60.0)).removesuffix(" 0 s")


def total_steps(layout: RunLayout) -> int | None:
    """Return the total that the newest attempt with that value wrote, else the plan's; None if neither has
    it.
    """
    for number in reversed(layout.attempt_numbers()):
        progress = read_progress(layout.attempt(number).rank(0).progress)
        if progress is not None and progress.total is not None:
            return progress.total
    try:
        steps = read_json(layout.plan)["batch"]["steps"]
    except (OSError, KeyError, TypeError):
        return None
    return steps if isinstance(steps, int) and not isinstance(steps, bool) and steps > 0 else None


def seconds_a_step(metrics: RunMetrics, name: str, rank: int) -> float | None:
    """Return the pace of the last minutes, from the times at which rows of the metric `name` were written.

    Time between steps (evaluations, saves) is included. None if fewer than two steps are known.

    Raises:
        OSError: a file cannot be read.
    """
    import numpy as np

    from torchdeck.metrics.owned_segment import rows_of

    parts = metrics.parts(name, rank)
    if not parts:
        return None
    segment, limit = parts[-1]
    rows = rows_of(segment, name, limit, max(0, segment.rows - ROWS), segment.rows)
    if len(rows) < 2:
        return None
    late = int(np.searchsorted(rows.times, rows.times[-1] - PACE_SECONDS))
    first = min(late, max(0, len(rows) - FEWEST))
    steps, times = np.diff(rows.steps[first:]), np.diff(rows.times[first:])
    forward = (steps > 0) & (times >= 0)
    if not forward.any():
        return None
    steps, times = steps[forward], times[forward]
    usual = float(np.median(times / steps))
    pace = float(np.minimum(times, LONGEST_PAUSE * usual * steps).sum() / steps.sum())
    return pace if math.isfinite(pace) and pace > 0 else None
