"""Windows of many metrics over one range, updated only with appended rows.

For a live display of many series: each poll of the files costs what is new, not what is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from torchdeck.metrics.blocks import BLOCK_ROWS
from torchdeck.metrics.owned_segment import OwnedSegment
from torchdeck.metrics.run_metrics import RunMetrics
from torchdeck.metrics.scale import ColumnScale
from torchdeck.metrics.segment import TIME, Rows, steps_of
from torchdeck.metrics.series import Owner
from torchdeck.metrics.window import Window, WindowBuilder

BY_BLOCKS = 400_000
"""Number of new rows from which the level of detail is faster than reading them all."""
_ROWS_AT_ONCE = 8_192
_RECENT = 256
"""Number of last rows among which an unwritten row may still be filled; no row after it is processed."""


@dataclass
class _Columns:
    """One metric of one segment."""

    limit: int
    generation: int
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    counts: NDArray[np.int64]
    odd: NDArray[np.int64]
    rows: int = 0
    """Rows processed so far."""


class Grid:
    """Columns over one range of x, for any number of requested metrics and owners.

    Args:
        metrics: metrics of the run; the caller of `windows` refreshes them.
        x0: minimum x.
        x1: maximum x.
        columns: number of columns.
        axis: `step`, or `time` in unix seconds.
        effective: as for `RunMetrics.series`.
        log: columns of equal width in the logarithm of x.

    Raises:
        ValueError: the range is invalid, or there is no column.
    """

    def __init__(
        self,
        metrics: RunMetrics,
        x0: float,
        x1: float,
        columns: int,
        *,
        axis: str = "step",
        effective: bool = False,
        log: bool = False,
    ) -> None:
        self._metrics = metrics
        self._scale = ColumnScale(x0, x1, columns, log=log)
        self._axis = axis
        self._effective = effective
        self._known: dict[OwnedSegment, dict[str, _Columns]] = {}

    def windows(self, names: Sequence[str], owner: Owner) -> dict[str, Window]:
        """Return the window of each metric that `owner` has; their arrays change with the next call.

        Raises:
            OSError: a file cannot be read.
        """
        wanted: dict[OwnedSegment, dict[str, int]] = {}
        parts: dict[str, list[OwnedSegment]] = {}
        for name in names:
            for segment, limit in self._metrics.parts(name, owner, effective=self._effective):
                wanted.setdefault(segment, {})[name] = limit
                parts.setdefault(name, []).append(segment)
        for segment, limits in wanted.items():
            self._advance(segment, limits)
        edges = self._scale.edges
        return {
            name: _joined(edges, [self._known[segment][name] for segment in found])
            for name, found in parts.items()
        }

    def _advance(self, segment: OwnedSegment, limits: dict[str, int]) -> None:
        known = self._known.setdefault(segment, {})
        for key, limit in limits.items():
            had = known.get(key)
            if had is None or had.limit != limit or had.generation != segment.generation:
                known[key] = self._begun(segment, key, limit)
        waiting = [key for key in limits if known[key].rows < segment.rows]
        while waiting:
            together = [
                key
                for key in waiting
                if known[key].rows == known[waiting[0]].rows and known[key].limit == known[waiting[0]].limit
            ]
            self._take_rows(segment, together, known)
            waiting = [key for key in waiting if key not in together]

    def _begun(self, segment: OwnedSegment, key: str, limit: int) -> _Columns:
        columns = self._scale.columns
        made = _Columns(
            limit,
            segment.generation,
            np.full(columns, np.nan),
            np.full(columns, np.nan),
            np.zeros(columns, np.int64),
            np.zeros(columns, np.int64),
        )
        if segment.rows >= BY_BLOCKS:
            scale = self._scale
            builder = WindowBuilder(scale.x0, scale.x1, columns, self._axis, log=scale.log)
            rows = segment.rows
            builder.add(segment, segment.index, key, limit)
            window = builder.window()
            made.low, made.high, made.counts, made.odd = window.low, window.high, window.counts, window.odd
            made.rows = rows
        return made

    def _take_rows(self, segment: OwnedSegment, keys: list[str], known: dict[str, _Columns]) -> None:
        first, limit = known[keys[0]].rows, known[keys[0]].limit
        places = [segment.column(key) for key in keys]
        end = segment.rows
        start = first or self._first_near(segment)
        stop = end if first else self._last_near(segment)
        while start < stop:
            rows = segment.read(start, min(start + segment.rows_at_once(_ROWS_AT_ONCE), stop))
            if not len(rows):
                end = start
                break
            whole = len(rows) - _still_to_come(rows, segment.rows - start)
            self._merge(rows[:whole], [known[key] for key in keys], places, limit)
            start += whole
            if whole < len(rows):
                end = start
                break
        for key in keys:
            known[key].rows = end

    def _first_near(self, segment: OwnedSegment) -> int:
        return int(self._near(segment).start) * BLOCK_ROWS

    def _last_near(self, segment: OwnedSegment) -> int:
        near, blocks = self._near(segment), segment.index.steps.blocks
        return segment.rows if near.stop >= blocks else int(near.stop) * BLOCK_ROWS

    def _near(self, segment: OwnedSegment) -> slice:
        segment.index.advance_axes()
        axis = segment.index.times if self._axis == "time" else segment.index.steps
        return axis.between(self._scale.x0, self._scale.x1)

    def _merge(self, rows: Rows, into: list[_Columns], places: list[int], limit: int) -> None:
        steps, times = steps_of(rows), rows[:, TIME]
        x = times if self._axis == "time" else steps
        mask = (times != 0) & (steps <= limit) & self._scale.holds(x)
        if not mask.any():
            return
        columns = self._scale.columns_of(x[mask])
        values = rows[:, places] if mask.all() else rows[mask][:, places]
        if (columns[1:] < columns[:-1]).any():
            order = np.argsort(columns, kind="stable")
            columns, values = columns[order], values[order]
        starts = np.concatenate(([0], np.flatnonzero(np.diff(columns)) + 1))
        hit = columns[starts]
        low, high = np.fmin.reduceat(values, starts, axis=0), np.fmax.reduceat(values, starts, axis=0)
        counts = np.diff(np.append(starts, len(columns)))
        odd = np.add.reduceat(~np.isfinite(values), starts, axis=0, dtype=np.int64)
        for number, part in enumerate(into):
            part.low[hit] = np.fmin(part.low[hit], low[:, number])
            part.high[hit] = np.fmax(part.high[hit], high[:, number])
            part.counts[hit] += counts
            part.odd[hit] += odd[:, number]


def _still_to_come(rows: Rows, left: int) -> int:
    """Return how many of `rows`, from the first unwritten row on, should be processed later."""
    recent = min(max(0, left - _RECENT), len(rows))
    holes = np.flatnonzero(rows[recent:, TIME] == 0).tolist()
    return len(rows) - recent - holes[0] if holes else 0


def _joined(edges: NDArray[np.float64], parts: list[_Columns]) -> Window:
    low, high, counts, odd = parts[0].low, parts[0].high, parts[0].counts, parts[0].odd
    for part in parts[1:]:
        low, high = np.fmin(low, part.low), np.fmax(high, part.high)
        counts, odd = counts + part.counts, odd + part.odd
    return Window(edges, low, high, counts, odd)
