"""Goal of a sweep: a metric, whether low or high is good, and which of its values counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torchdeck.runs.query.metric_values import BEST, LAST, MAX, MIN, best_of, metric_key


@dataclass(frozen=True)
class Goal:
    """The metric to make as low or as high as possible."""

    metric: str
    """Name as the list of runs takes it: `validation_loss` (its last value), `accuracy:best`, `loss@1000`."""
    is_high: bool = False
    """Whether the highest value is the best."""

    @property
    def series(self) -> str:
        """Name of the metric without the part that selects a value."""
        key = metric_key(self.metric)
        return self.metric if key is None else key.metric

    def key(self, value: float) -> float:
        """Return a number that is lower for better values; NaN is the worst."""
        if math.isnan(value):
            return math.inf
        return -value if self.is_high else value

    def value_of(self, history: Sequence[tuple[int, float]]) -> float | None:
        """Return the value of a complete history that counts; None if it has none.

        Args:
            history: step and value, by ascending step.
        """
        if not history:
            return None
        key = metric_key(self.metric)
        if key is None or key.which == LAST:
            return history[-1][1]
        if not key.which:
            until = [value for step, value in history if step <= key.step]
            return until[-1] if until and history[-1][0] >= key.step else None
        numbers = [value for _, value in history if not math.isnan(value)]
        if not numbers:
            return math.nan
        highest = key.which == MAX or (key.which == BEST and self.is_high)
        return max(numbers) if highest else min(numbers)

    @property
    def word(self) -> str:
        """`max` or `min`."""
        return MAX if self.is_high else MIN


def goal_of(metric: str, direction: str | None) -> Goal:
    """Return the goal for a metric.

    Args:
        metric: its name.
        direction: `min` or `max`; None: as the metric's name suggests.
    """
    key = metric_key(metric)
    which = direction or best_of(metric if key is None else key.metric)
    return Goal(metric, which == MAX)
