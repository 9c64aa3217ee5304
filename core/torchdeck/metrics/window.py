"""A metric reduced to what a screen can show: minimum and maximum in each column of pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from torchdeck.metrics.blocks import AXES, BLOCK_ROWS, BlockIndex
from torchdeck.metrics.scale import ColumnScale
from torchdeck.metrics.segment import TIME, Rows, Segment, steps_of
from torchdeck.metrics.series import Series
from torchdeck.metrics.smoothing import SmoothedBlocks

NO_LIMIT = int(np.iinfo(np.int64).max)
_BLOCKS_AT_ONCE = 2048


@dataclass(frozen=True)
class Window:
    """A range of x in columns of equal width; every row in the range is in exactly one.

    Attributes:
        edges: float64, shape (columns + 1,): column i holds edges[i] ≤ x < edges[i + 1], the last one its
            end too.
        low: float64, shape (columns,): minimum; NaN if there is none (no row, or only NaN).
        high: float64, shape (columns,): maximum.
        counts: int64, shape (columns,): rows, including those with NaN.
        odd: int64, shape (columns,): of these, rows with NaN or infinity.
    """

    edges: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    counts: NDArray[np.int64]
    odd: NDArray[np.int64]


class WindowBuilder:
    """Fills a window from segments."""

    def __init__(self, x0: float, x1: float, columns: int, axis: str, *, log: bool = False) -> None:
        """Create an empty window.

        Args:
            x0: minimum x.
            x1: maximum x.
            columns: number of columns; a screen's width in pixels.
            axis: meaning of x: `step`, or `time` in unix seconds.
            log: columns of equal width in the logarithm of x.

        Raises:
            ValueError: the range is invalid, there is no column, or no such axis.
        """
        self._scale = ColumnScale(x0, x1, columns, log=log)
        if axis not in AXES:
            raise ValueError(f"there is no axis {axis!r}; expected {' or '.join(AXES)}")
        self._by_time = axis == "time"
        self._low = np.full(columns, np.nan)
        self._high = np.full(columns, np.nan)
        self._counts = np.zeros(columns, np.int64)
        self._odd = np.zeros(columns, np.int64)

    def add(
        self,
        segment: Segment,
        index: BlockIndex,
        key: str,
        limit: int = NO_LIMIT,
        smoothed: SmoothedBlocks | None = None,
    ) -> None:
        """Add a segment's rows, except those with a step above `limit`.

        Blocks within one column are added by their extremes; the rows of the others are read.

        Args:
            segment: segment with the rows.
            index: index of the segment.
            key: the metric.
            limit: the last step that counts.
            smoothed: use the moving average of the metric instead of its values.

        Raises:
            OSError: the file cannot be read.
        """
        scale = self._scale
        odd = index.advance(key).odd
        values = index.advance(key) if smoothed is None else smoothed.advance()
        axis = index.times if self._by_time else index.steps
        near = axis.between(scale.x0, scale.x1)
        near = slice(near.start, min(near.stop, values.blocks))
        low, high = axis.low[near], axis.high[near]
        seen = (high >= scale.x0) & (low <= scale.x1) & (index.steps.low[near] <= limit)
        inside = (low >= scale.x0) & (high <= scale.x1) & (index.steps.high[near] <= limit)
        columns = scale.columns_of(np.where(inside, low, scale.x0))
        whole = inside & (columns == scale.columns_of(np.where(inside, high, scale.x0)))
        self._merge(columns[whole], values.low[near][whole], values.high[near][whole], BLOCK_ROWS)
        self._odd += np.bincount(columns[whole], odd[near][whole], len(self._odd)).astype(np.int64)
        column = segment.column(key)
        at_once = segment.blocks_at_once(_BLOCKS_AT_ONCE, BLOCK_ROWS)
        for runs in _runs(near.start + np.flatnonzero(seen & ~whole), values.blocks, segment.rows, at_once):
            if smoothed is None:
                rows = segment.read_runs(runs)
                self._add_rows(rows, rows[:, column], limit)
                continue
            for first, last in runs:
                rows = segment.read(first, last)
                known = np.where(rows[:, TIME] != 0, rows[:, column], np.nan)
                self._add_rows(rows, smoothed.values(known, first), limit)

    def window(self) -> Window:
        return Window(self._scale.edges, self._low, self._high, self._counts, self._odd)

    def _add_rows(self, rows: Rows, values: NDArray[np.float64], limit: int) -> None:
        steps, times = steps_of(rows), rows[:, TIME]
        x = times if self._by_time else steps
        mask = (times != 0) & (steps <= limit) & self._scale.holds(x)
        values = values[mask]
        columns = self._scale.columns_of(x[mask])
        self._merge(columns, values, values, 1)
        self._odd += np.bincount(columns[~np.isfinite(values)], minlength=len(self._odd))

    def _merge(
        self, columns: NDArray[np.intp], low: NDArray[np.float64], high: NDArray[np.float64], rows: int
    ) -> None:
        np.fmin.at(self._low, columns, low)
        np.fmax.at(self._high, columns, high)
        self._counts += rows * np.bincount(columns, minlength=self._scale.columns)


def window_of(
    series: Series, x0: float, x1: float, columns: int, *, axis: str = "step", log: bool = False
) -> Window:
    """Return a series that is in memory as a window; arguments as for `WindowBuilder`. Raises ValueError."""
    scale = ColumnScale(x0, x1, columns, log=log)
    x = series.times if axis == "time" else series.steps
    inside = scale.holds(x)
    values, places = series.values[inside], scale.columns_of(x[inside])
    low, high = np.full(columns, np.nan), np.full(columns, np.nan)
    if len(places) and (places[1:] >= places[:-1]).all():
        # as it usually is; one pass over each column instead of one call per row
        starts = np.flatnonzero(np.diff(places, prepend=-1))
        low[places[starts]] = np.fmin.reduceat(values, starts)
        high[places[starts]] = np.fmax.reduceat(values, starts)
    else:
        np.fmin.at(low, places, values)
        np.fmax.at(high, places, values)
    odd = np.bincount(places[~np.isfinite(values)], minlength=columns).astype(np.int64)
    counts = np.bincount(places, minlength=columns).astype(np.int64)
    return Window(scale.edges, low, high, counts, odd)


def _runs(
    blocks: NDArray[np.intp], whole: int, rows: int, at_once: int
) -> Iterator[Sequence[tuple[int, int]]]:
    """Yield ranges of rows to read, neighbours joined, in portions; including the rows after the last
    block.
    """
    for start in range(0, len(blocks), at_once):
        part = blocks[start : start + at_once]
        breaks = np.flatnonzero(np.diff(part) != 1)
        firsts = part[np.concatenate(([0], breaks + 1))] * BLOCK_ROWS
        lasts = (part[np.concatenate((breaks, [len(part) - 1]))] + 1) * BLOCK_ROWS
        yield list(zip(firsts.tolist(), lasts.tolist(), strict=True))
    first = whole * BLOCK_ROWS
    if first < rows:
        yield [(first, rows)]
