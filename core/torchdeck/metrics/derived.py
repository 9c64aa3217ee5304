"""Series of formulas over a run's metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from torchdeck.metrics.excerpt import sampled
from torchdeck.metrics.formula import Formula, formula_of
from torchdeck.metrics.run_metrics import RunMetrics
from torchdeck.metrics.series import Latest, Owner, Series
from torchdeck.trainers.metric_naming import named_metric
from torchdeck.trainers.metric_roles import Roles

MOST_ROWS = 1 << 20
"""Rows of a metric that are read; longer runs are sampled evenly."""


class DerivedMetrics:
    """Computes series from those of one rank, at the steps at which all metrics of the formula have a row.

    They are kept until `forget`. For one thread.
    """

    def __init__(self, metrics: RunMetrics, roles: Callable[[], Roles]) -> None:
        """Args:
        metrics: of the run.
        roles: returns the roles of its metrics.
        """
        self._metrics, self._roles = metrics, roles
        self._kept: dict[tuple[str, Owner, bool, float | None], Series] = {}

    def forget(self) -> None:
        """Compute them again: there are new rows."""
        self._kept.clear()

    def ranks(self, name: str) -> list[int]:
        """Return the ranks that have all metrics of a formula, by its name."""
        formula = formula_of(name)
        found = None if formula is None else self._metric_names(formula)
        if not found:
            return []
        ranks = [set(self._metrics.ranks(metric)) for metric in found]
        return sorted(set.intersection(*ranks))

    def missing(self, formula: Formula) -> tuple[str, ...]:
        """Return the names in a formula that are no metrics of the run."""
        names, roles = self._metrics.names(), self._roles()
        return tuple(name for name in formula.names if named_metric(name, names, roles) is None)

    def series(self, name: str, owner: Owner, *, effective: bool = False) -> Series:
        """Return the series of a formula, by its name; without the rank's metrics it is empty.

        Raises:
            OSError: a file cannot be read.
        """
        key = (name, owner, effective, self._metrics.until)
        if key not in self._kept:
            self._kept[key] = self._computed(name, owner, effective=effective)
        return self._kept[key]

    def latest(self, name: str, owner: Owner) -> Latest | None:
        """Return the newest row; None if there is none."""
        found = self.series(name, owner)
        if not len(found):
            return None
        return Latest(
            int(found.steps[-1]), float(found.times[-1]), float(found.values[-1]), int(found.attempts[-1])
        )

    def _computed(self, name: str, owner: Owner, *, effective: bool) -> Series:
        formula = formula_of(name)
        metrics = None if formula is None else self._metric_names(formula)
        if formula is None or metrics is None:
            return Series.empty()
        parts = [
            sampled(self._metrics, metric, owner, most=MOST_ROWS, effective=effective) for metric in metrics
        ]
        joined = _joined(parts)
        columns = dict(zip(formula.names, (part.values for part in joined), strict=True))
        first = joined[0]
        values = np.broadcast_to(formula.value(columns), first.values.shape)
        return Series(first.steps, first.times, np.array(values), first.attempts)

    def _metric_names(self, formula: Formula) -> list[str] | None:
        names, roles = self._metrics.names(), self._roles()
        found = [named_metric(name, names, roles) for name in formula.names]
        known = [name for name in found if name is not None]
        return known if len(known) == len(found) else None


def _joined(parts: Sequence[Series]) -> list[Series]:
    """Return the rows of the steps that all series have, each step of an attempt once, in their order."""
    if len(parts) == 1:
        return list(parts)
    lengths = {len(part) for part in parts}
    first = parts[0]
    if len(lengths) == 1 and all(
        np.array_equal(part.steps, first.steps) and np.array_equal(part.attempts, first.attempts)
        for part in parts[1:]
    ):
        return list(parts)
    if 0 in lengths:
        return [Series.empty() for _ in parts]
    span = max(int(part.steps.max()) for part in parts) + 1
    last = [_last_rows(part, span) for part in parts]
    common = reduce(np.intersect1d, [keys for keys, _ in last])
    return [
        part.picked(rows[np.searchsorted(keys, common)])
        for part, (keys, rows) in zip(parts, last, strict=True)
    ]


def _last_rows(part: Series, span: int) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return a number for each step of an attempt, ascending, and the last row that has it."""
    keys = part.attempts.astype(np.int64) * span + part.steps
    found, at = np.unique(keys[::-1], return_index=True)
    return found, len(keys) - 1 - at
