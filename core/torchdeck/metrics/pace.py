"""Pace of a training, from the rows of a metric."""

from __future__ import annotations

import math

import numpy as np

from torchdeck.metrics.owned_segment import rows_of
from torchdeck.metrics.run_metrics import RunMetrics

ROWS = 1024
"""Maximum number of newest rows used for the pace."""
PACE_SECONDS = 300.0
"""Maximum age of rows used for the pace; `FEWEST` are always used."""
FEWEST = 32
LONGEST_PAUSE = 100.0
"""A pause counts as at most this many usual steps: an evaluation counts, a suspended machine does not."""


def steps_a_row(metrics: RunMetrics, name: str, rank: int) -> int:
    """Return the steps between the newest two rows of a metric; the step of a single one; at least 1.

    Raises:
        OSError: a file cannot be read.
    """
    parts = metrics.parts(name, rank)
    if not parts:
        return 1
    segment, limit = parts[-1]
    steps: list[int] = rows_of(segment, name, limit, max(0, segment.rows - 2), segment.rows).steps.tolist()
    return max(1, abs(steps[-1] - steps[0]) if len(steps) > 1 else sum(steps))


def seconds_a_step(metrics: RunMetrics, name: str, rank: int) -> float | None:
    """Return the pace of the last minutes, from the times at which rows of the metric `name` were written.

    Time between steps (evaluations, saves) is included. None if fewer than two steps are known.

    Raises:
        OSError: a file cannot be read.
    """
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
