"""Metric of all ranks over steps or time, as a matrix; for the reader thread."""

from __future__ import annotations

from collections.abc import Mapping as TypedMapping
from dataclasses import dataclass, field

import numpy as np

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.plots.catalogue import LOSS, Metric, catalogue
from torchdeck.runs.plots.exchange import Array, Moments
from torchdeck.runs.plots.mapping import Mapping
from torchdeck.runs.plots.ranges import stepped_end
from torchdeck.runs.plots.run_reader import RunReader, Span
from torchdeck.runs.plots.stragglers import Straggler, stragglers
from torchdeck.runs.plots.x_axis import XKind

PREFERRED = "step_time"
_BETTER_SMALL = frozenset({"s", "bytes"})
"""Units in which larger values are worse."""


@dataclass(frozen=True)
class Asked:
    """Request for the data to show."""

    key: str
    """Key of the plot; empty for the most informative one."""
    kind: XKind
    columns: int
    until: float | None = None


@dataclass(frozen=True)
class Matrix:
    """Matrix of a metric. Rows are ranks, columns of equal width in x."""

    asked: Asked
    metrics: tuple[Metric, ...]
    """Metrics with values of more than one rank, or of the only one."""
    metric: Metric | None
    ranks: tuple[int, ...]
    edges: Array
    """Edges of the columns in x, shape (columns + 1,)."""
    values: Array
    """Shape (ranks, columns); NaN if there is no row."""
    found: tuple[Straggler, ...]
    moments: Moments
    problem: str = ""
    nodes: TypedMapping[int, str] = field(default_factory=dict)
    """Node of each rank if there are several nodes."""


class MatrixReader:
    """Reader of one run."""

    def __init__(self, layout: RunLayout) -> None:
        self._run = RunReader(layout)
        self._last: Matrix | None = None

    def answer(self, asked: Asked) -> Matrix:
        """Return the current data: the previous answer if there are no new rows and the request is the same.

        Raises:
            OSError: a file cannot be read.
            NewerFormatError: the run is from a newer Torchdeck.
        """
        rows = self._run.refresh(asked.until)
        if not rows and self._last is not None and self._last.asked == asked:
            return self._last
        metrics = self._metrics()
        known = {metric.key: metric for metric in metrics}
        metric = known.get(asked.key) or known.get(PREFERRED) or (metrics[0] if metrics else None)
        mapping = self._run.mapping(asked.kind)
        span = self._span(asked, mapping)
        ranks, edges, values = self._values(metric, span)
        self._run.forget_unused()
        worse = metric is not None and metric.unit in _BETTER_SMALL
        self._last = Matrix(
            asked,
            metrics,
            metric,
            tuple(ranks),
            mapping.x_of(asked.kind, edges),
            values,
            tuple(stragglers(values)) if worse else (),
            mapping.moments(asked.kind),
            next(iter(self._run.metrics.problems), ""),
            self._run.rank_nodes,
        )
        return self._last

    def _span(self, asked: Asked, mapping: Mapping) -> Span | None:
        """Return the span to read: never finer than the rows, as gaps between them would be misleading."""
        extent = self._extent(asked.kind)
        if extent is None:
            return None
        axis = "time" if asked.kind == "relative" else "step"
        low, end = extent[0], stepped_end(*extent)
        rows = len(mapping.kept_steps) - 1 if axis == "step" else len(mapping.times) // 2
        columns = max(1, min(asked.columns, round(rows * (end - low) / max(extent[1] - low, 1e-9))))
        return Span(axis, low, end, columns)

    def _values(self, metric: Metric | None, span: Span | None) -> tuple[list[int], Array, Array]:
        """Return ranks, column edges, and each rank's value per column; NaN if there is none."""
        if metric is None or span is None:
            return [], np.empty(0), np.empty((0, 0))
        name = metric.names[0]
        ranks = self._run.metrics.ranks(name)
        values = np.full((len(ranks), span.columns), np.nan)
        edges = np.empty(0)
        for row, rank in enumerate(ranks):
            window = self._run.windows([name], rank, span).get(name)
            if window is not None:
                edges = window.edges
                values[row] = (window.low + window.high) / 2
        if not len(edges):  # the files are gone
            return [], edges, np.empty((0, 0))
        values[~np.isfinite(values)] = np.nan
        return ranks, edges, values

    def _metrics(self) -> tuple[Metric, ...]:
        """Return the metrics that every rank logs, not only the first."""
        most = max((len(self._run.metrics.ranks(name)) for name in self._run.metrics.names()), default=0)
        names = [
            name
            for name in self._run.metrics.names()
            if len(self._run.metrics.ranks(name)) > min(most, 2) - 1
        ]
        found = catalogue(names, (), roles=self._run.roles)
        return tuple(metric for metric in found if metric.key == LOSS or "/" not in metric.names[0])

    def _extent(self, kind: XKind) -> tuple[float, float] | None:
        mapping = self._run.mapping(kind)
        if not len(mapping.kept_steps):
            return None
        if kind == "relative":
            last = self._run.last_time(mapping)
            return None if last is None else (mapping.start, max(last, mapping.start + 1))
        step = self._run.last_step(mapping)
        first = float(mapping.kept_steps[0])
        return None if step is None else (min(first, 0.0) if first <= 1 else first, max(step, first + 1))
