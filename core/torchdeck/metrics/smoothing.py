"""Exponential moving average as drawn by TensorBoard, for series of any length.

For each finite x: last = w · last + (1 - w) · x, count += 1. The drawn value is last / (1 - w^count), so that
the start is not pulled to 0. Values that are not finite stay as they are and do not count.
(tensorboard/components/vz_line_chart2/line-chart.ts, `resmoothDataset`.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from torchdeck.metrics.blocks import BLOCK_ROWS, Extremes
from torchdeck.metrics.segment import TIME, Segment

Begin = tuple[float, int]
"""State from which an average continues: its last value and its number of finite rows."""

_TILE = 64
_CHUNK_BLOCKS = 256


@dataclass(frozen=True)
class Averages:
    """Averages after each row, shape (n,) each."""

    smoothed: NDArray[np.float64]
    last: NDArray[np.float64]
    count: NDArray[np.int64]


def averages(values: NDArray[np.float64], weight: float, last: float = 0.0, count: int = 0) -> Averages:
    """Return the moving average of `values`, continued from `last` and `count`.

    Args:
        values: shape (n,).
        weight: 0 (none) to below 1.
        last: average after the previous row.
        count: finite rows before.

    Raises:
        ValueError: the weight is not in its range.
    """
    if not 0 <= weight < 1:
        raise ValueError(f"smoothing is from 0 to below 1, not {weight}")
    finite = np.isfinite(values)
    kept = np.concatenate(([last], _decaying(values[finite], weight, last)))
    counts = count + np.cumsum(finite)
    lasts = kept[counts - count]
    unbiased = lasts / -np.expm1(np.maximum(counts, 1) * np.log(weight)) if weight else lasts
    smoothed = np.where(finite, unbiased, values)
    return Averages(smoothed, lasts, counts)


def window_means(values: NDArray[np.float64], rows: int) -> NDArray[np.float64]:
    """Return the mean of the last `rows` finite values at each value; the first ones of as many as there are.

    Values that are not finite stay as they are and do not count.

    Args:
        values: shape (n,).
        rows: width of the window, 1 or more.

    Raises:
        ValueError: the window has no rows.
    """
    if rows < 1:
        raise ValueError(f"a window has 1 row or more, not {rows}")
    finite = np.isfinite(values)
    x = values[finite]
    found = values.copy()
    if len(x):
        width = min(rows, len(x))
        found[finite] = _window_sums(x, width) / np.minimum(np.arange(1, len(x) + 1), width)
    return found


def _window_sums(x: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return the sum of the last `width` values at each value, without subtracting any: the end of one block
    and the beginning of the next. A huge value is thus only in the sums of its own windows.
    """
    padded = np.zeros(-(-len(x) // width) * width)
    padded[: len(x)] = x
    blocks = padded.reshape(-1, width)
    sums = np.cumsum(blocks, axis=1)
    ends = np.cumsum(blocks[:, ::-1], axis=1)[:, ::-1]
    sums[1:, :-1] += ends[:-1, 1:]
    return sums.reshape(-1)[: len(x)]


def _decaying(x: NDArray[np.float64], weight: float, last: float) -> NDArray[np.float64]:
    """Compute last = weight · last + (1 - weight) · x after each x; a tile at a time, as one matrix
    product.
    """
    tiles = -(-len(x) // _TILE)
    padded = np.zeros(tiles * _TILE)
    padded[: len(x)] = x
    exponents = np.arange(_TILE) - np.arange(_TILE)[:, None]
    kernel = np.where(exponents >= 0, (1 - weight) * weight ** np.maximum(exponents, 0).astype(float), 0.0)
    inside = padded.reshape(tiles, _TILE) @ kernel
    carries, whole = np.empty(tiles), weight**_TILE
    for tile, added in enumerate(inside[:, -1].tolist()):
        carries[tile] = last
        last = whole * last + added
    inside += carries[:, None] * weight ** np.arange(1, _TILE + 1)
    return inside.reshape(-1)[: len(x)]


class SmoothedBlocks:
    """Moving average of one metric of a segment: extremes of each block, and the state before each."""

    def __init__(self, segment: Segment, key: str, weight: float, begin: Begin = (0.0, 0)) -> None:
        """Initialise without reading.

        Args:
            segment: segment with the rows.
            key: the metric.
            weight: weight of the previous average, 0 to below 1.
            begin: state before the first row: after a restored checkpoint, that of its last row.
        """
        self._segment = segment
        self._key = key
        self.weight = weight
        self.begin = begin
        self._forget()

    def _forget(self) -> None:
        self._generation = self._segment.generation
        self._extremes = Extremes(np.float64)
        self._before = Extremes(np.float64)
        """For each block, the average and the count it begins with."""
        self._last, self._count = self.begin

    def advance(self) -> Extremes:
        """Process appended rows. Return the extremes of the average in each whole block.

        Raises:
            OSError: the file cannot be read.
        """
        if self._generation != self._segment.generation:
            self._forget()
        whole = self._segment.rows // BLOCK_ROWS
        while self._extremes.blocks < whole:
            start = self._extremes.blocks
            end = min(start + self._segment.blocks_at_once(_CHUNK_BLOCKS, BLOCK_ROWS), whole)
            rows = self._segment.read(start * BLOCK_ROWS, end * BLOCK_ROWS)
            if len(rows) < (end - start) * BLOCK_ROWS:
                break  # truncated just now; the next refresh sees it
            values = rows[:, self._segment.column(self._key)]
            self._take(np.where(rows[:, TIME] != 0, values, np.nan))
        return self._extremes

    def values(self, column: NDArray[np.float64], first: int) -> NDArray[np.float64]:
        """Return the averages of rows that begin a block.

        Args:
            column: the rows' values, shape (n,).
            first: number of the first row, a multiple of `BLOCK_ROWS`; every block before it is processed.
        """
        return averages(column, self.weight, *self._at(first // BLOCK_ROWS)).smoothed

    def after(self, column: NDArray[np.float64], first: int) -> Begin:
        """Return the state after these rows; arguments as for `values`."""
        begin = self._at(first // BLOCK_ROWS)
        if not len(column):
            return begin
        found = averages(column, self.weight, *begin)
        return float(found.last[-1]), int(found.count[-1])

    def _at(self, block: int) -> Begin:
        if block < self._before.blocks:
            return float(self._before.low[block]), int(self._before.high[block])
        return self._last, self._count

    def _take(self, values: NDArray[np.float64]) -> None:
        found = averages(values, self.weight, self._last, self._count)
        ends = slice(BLOCK_ROWS - 1, None, BLOCK_ROWS)
        lasts, counts = found.last[ends], found.count[ends]
        self._before.append(
            np.concatenate(([self._last], lasts[:-1])), np.concatenate(([float(self._count)], counts[:-1]))
        )
        blocks = found.smoothed.reshape(-1, BLOCK_ROWS)
        self._extremes.append(np.fmin.reduce(blocks, axis=1), np.fmax.reduce(blocks, axis=1))
        self._last, self._count = float(lasts[-1]), int(counts[-1])
