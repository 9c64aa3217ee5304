"""A metric reduced to what a screen can show: least and greatest value in each column of pixels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchdeck.telemetry.reader.blocks import AXES, BLOCK_ROWS, BlockIndex
from torchdeck.telemetry.reader.segment import TIME, Rows, Segment, steps_of

NO_LIMIT = int(np.iinfo(np.int64).max)
_BLOCKS_AT_ONCE = 2048


@dataclass(frozen=True)
class Window:
    """A range of x in columns of equal width; every row in the range is in exactly one.

    Attributes:
        edges: float64, shape (columns + 1,): column i holds edges[i] ≤ x < edges[i + 1], the last one its
            end too.
        low: float64, shape (columns,): least value; NaN where there is none (no row, or only NaN).
        high: float64, shape (columns,): greatest value.
        counts: int64, shape (columns,): rows, those with NaN included.
    """

    edges: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    counts: NDArray[np.int64]


class WindowBuilder:
    """Fills a window from segments."""

    def __init__(self, x0: float, x1: float, columns: int, axis: str) -> None:
        """An empty window.

        Args:
            x0: least x.
            x1: greatest x.
            columns: how many; a screen's width in pixels.
            axis: what x is: `step`, or `time` in unix seconds.

        Raises:
            ValueError: the range is no range, there is no column, or no such axis.
        """
        if not (math.isfinite(x0) and math.isfinite(x1) and x0 <= x1):
            raise ValueError(f"a window goes from x0 to a greater x1, both finite, not from {x0} to {x1}")
        if columns < 1:
            raise ValueError(f"a window has at least one column, not {columns}")
        if axis not in AXES:
            raise ValueError(f"there is no axis {axis!r}; right is {' or '.join(AXES)}")
        self._x0, self._x1, self._columns = float(x0), float(x1), columns
        self._scale = columns / (x1 - x0) if x1 > x0 else 0.0
        self._by_time = axis == "time"
        self._low = np.full(columns, np.nan)
        self._high = np.full(columns, np.nan)
        self._counts = np.zeros(columns, np.int64)

    def add(self, segment: Segment, index: BlockIndex, key: str, limit: int = NO_LIMIT) -> None:
        """Take in a segment's rows, those with a step above `limit` left out.

        Blocks that lie in one column are taken by their extremes; the rows of the others are read.

        Raises:
            OSError: the file cannot be read.
        """
        values = index.advance(key)
        axis = index.times if self._by_time else index.steps
        near = axis.between(self._x0, self._x1)
        low, high = axis.low[near], axis.high[near]
        seen = (high >= self._x0) & (low <= self._x1) & (index.steps.low[near] <= limit)
        inside = (low >= self._x0) & (high <= self._x1) & (index.steps.high[near] <= limit)
        columns = self._columns_of(np.where(inside, low, self._x0))
        whole = inside & (columns == self._columns_of(np.where(inside, high, self._x0)))
        self._merge(columns[whole], values.low[near][whole], values.high[near][whole], BLOCK_ROWS)
        column = segment.column(key)
        for runs in _runs(near.start + np.flatnonzero(seen & ~whole), axis.blocks, segment.rows):
            self._add_rows(segment.read_runs(runs), column, limit)

    def window(self) -> Window:
        return Window(np.linspace(self._x0, self._x1, self._columns + 1), self._low, self._high, self._counts)

    def _add_rows(self, rows: Rows, column: int, limit: int) -> None:
        steps, times = steps_of(rows), rows[:, TIME]
        x = times if self._by_time else steps
        mask = (times != 0) & (steps <= limit) & (x >= self._x0) & (x <= self._x1)
        values = rows[mask, column]
        self._merge(self._columns_of(x[mask]), values, values, 1)

    def _columns_of(self, x: NDArray[Any]) -> NDArray[np.intp]:
        columns = ((x - self._x0) * self._scale).astype(np.intp)
        return np.minimum(columns, self._columns - 1, out=columns)

    def _merge(
        self, columns: NDArray[np.intp], low: NDArray[np.float64], high: NDArray[np.float64], rows: int
    ) -> None:
        np.fmin.at(self._low, columns, low)
        np.fmax.at(self._high, columns, high)
        self._counts += rows * np.bincount(columns, minlength=self._columns)


def _runs(blocks: NDArray[np.intp], whole: int, rows: int) -> Iterator[Sequence[tuple[int, int]]]:
    """Ranges of rows to read, neighbours joined, in portions; the rows after the last block too."""
    for start in range(0, len(blocks), _BLOCKS_AT_ONCE):
        part = blocks[start : start + _BLOCKS_AT_ONCE]
        breaks = np.flatnonzero(np.diff(part) != 1)
        firsts = part[np.concatenate(([0], breaks + 1))] * BLOCK_ROWS
        lasts = (part[np.concatenate((breaks, [len(part) - 1]))] + 1) * BLOCK_ROWS
        yield list(zip(firsts.tolist(), lasts.tolist(), strict=True))
    first = whole * BLOCK_ROWS
    if first < rows:
        yield [(first, rows)]
