"""Results of a sweep: best trial, best so far, mean ± deviation over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torchdeck.sweeps.goal import Goal


class Judged(NamedTuple):
    """Value of a trial over its seeds."""

    mean: float
    deviation: float | None
    """Sample standard deviation; None for one seed, or if a value is not finite."""


class BestSoFar(NamedTuple):
    """Best value after a trial."""

    trial: int
    value: float
    """Value of this trial."""
    best: float
    """Best value of this and all earlier trials."""


def judged(values: Sequence[float]) -> Judged:
    """Return mean and deviation of at least one value; one NaN makes the mean NaN."""
    if not all(map(math.isfinite, values)):
        return Judged(math.fsum(values) if len(values) == 1 else math.nan, None)
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Judged(statistics.fmean(values), deviation)


def best_trial(values: Mapping[int, float], goal: Goal) -> int | None:
    """Return the number of the best trial, the earliest of equals; None if no value is a number."""
    numbers = {trial: value for trial, value in values.items() if not math.isnan(value)}
    return min(numbers, key=lambda trial: (goal.key(numbers[trial]), trial), default=None)


def best_so_far(values: Mapping[int, float], goal: Goal) -> list[BestSoFar]:
    """Return for each trial, by number, the best value up to it."""
    found: list[BestSoFar] = []
    for trial, value in sorted(values.items()):
        before = found[-1].best if found else value
        found.append(BestSoFar(trial, value, min(before, value, key=goal.key)))
    return found
