"""Segment of a run with its owner and derived data."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from torchdeck.contract.metrics.segment_format import SOURCES
from torchdeck.metrics.blocks import BLOCK_ROWS, BlockIndex
from torchdeck.metrics.segment import TIME, Rows, Segment, steps_of
from torchdeck.metrics.series import Owner, Series
from torchdeck.metrics.smoothing import Begin, SmoothedBlocks


class OwnedSegment(Segment):
    """Segment with its owner and its level of detail."""

    def __init__(self, path: Path, owner: Owner, attempt: int) -> None:
        super().__init__(path)
        self.owner = owner
        self.attempt = attempt
        self.index = BlockIndex(self)
        self.sparse = SparseRows(self)
        self._smoothed: dict[str, SmoothedBlocks] = {}

    def smoothed(self, key: str, weight: float, begin: Begin) -> SmoothedBlocks:
        """Return the moving average of one of its metrics; cached for the last requested weight and begin."""
        known = self._smoothed.get(key)
        if known is None or (known.weight, known.begin) != (weight, begin):
            known = self._smoothed[key] = SmoothedBlocks(self, key, weight, begin)
        return known

    def smoothed_until(self, key: str, step: int, weight: float, begin: Begin) -> Begin:
        """Return the state from which the average continues after the last row up to `step`.

        Raises:
            OSError: the file cannot be read.
        """
        smoothed = self.smoothed(key, weight, begin)
        smoothed.advance()
        self.index.advance_axes()
        blocks = self.index.steps
        passed = int(np.searchsorted(blocks.low, step, "right"))  # blocks that begin by then
        whole = passed == blocks.blocks
        first = passed * BLOCK_ROWS if whole else max(0, passed - 1) * BLOCK_ROWS
        rows = self.read(first, self.rows if whole else first + BLOCK_ROWS)
        until = np.flatnonzero((steps_of(rows) <= step) & (rows[:, TIME] != 0))
        if whole and not len(until) and passed:  # the last whole block contains the step
            first -= BLOCK_ROWS
            rows = self.read(first, first + BLOCK_ROWS)
            until = np.flatnonzero((steps_of(rows) <= step) & (rows[:, TIME] != 0))
        rows = rows[: until[-1] + 1] if len(until) else rows[:0]
        known = np.where(rows[:, TIME] != 0, rows[:, self.column(key)], np.nan)
        return smoothed.after(known, first)

    def step_at(self, time: float) -> int | None:
        """Return the step of the last row that was written by unix `time`; None before the first."""
        low, high, step = 0, self.rows, None
        while low < high:
            middle = (low + high) // 2
            row = self.read(middle, middle + 1)
            if len(row) and row[0, TIME] <= time:
                low = middle + 1
                step = int(steps_of(row)[0]) if row[0, TIME] else step
            else:
                high = middle
        return step

    @property
    def created(self) -> float:
        return self.header.created if self.header else 0.0

    @property
    def trust(self) -> int:
        """Position in `SOURCES`; an unknown source comes last."""
        source = self.header.source if self.header else ""
        return SOURCES.index(source) if source in SOURCES else len(SOURCES)


def rows_of(segment: OwnedSegment, name: str, limit: int, first: int, last: int) -> Series:
    """Return rows `first` to `last` - 1 of a segment, up to step `limit`.

    Raises:
        OSError: the file cannot be read.
    """
    return series_of(segment, name, limit, segment.read(first, last))


def series_of(segment: OwnedSegment, name: str, limit: int, rows: Rows) -> Series:
    """Return the series of a metric from `rows` of a segment, up to step `limit`."""
    attempts = np.full(len(rows), segment.attempt, np.int32)
    column = np.ascontiguousarray(rows[:, segment.column(name)])
    part = Series(steps_of(rows).copy(), rows[:, TIME].copy(), column, attempts)
    kept = (part.times != 0) & (part.steps <= limit)
    return part if kept.all() else part.picked(kept)


class SparseRows:
    """Reads each row once: if a segment has grown, only what is new. Use it from one thread at a time."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._stride = 1
        self._generation = -1
        self._rows: Rows = np.empty((0, 0))

    def every(self, stride: int) -> Rows:
        """Return the rows 0, `stride`, 2 · `stride`…, and the last one.

        Raises:
            OSError: the file cannot be read.
        """
        segment = self._segment
        if segment.generation != self._generation or stride % self._stride:
            self._generation, self._rows = segment.generation, segment.read(0, 0)
        else:
            self._rows = self._rows[:: stride // self._stride]
        self._stride = stride
        self._read_late()
        numbers = range(len(self._rows) * stride, segment.rows, stride)
        new = self._read(numbers)
        whole = np.concatenate([self._rows, new])
        if len(new) == len(numbers):  # otherwise it was truncated; the next poll handles it
            self._rows = whole
        if segment.rows and (segment.rows - 1) % stride:
            return np.concatenate([whole, segment.read(segment.rows - 1, segment.rows)])
        return whole

    def _read_late(self) -> None:
        """Retry rows that were not written yet, though later ones were."""
        late = np.flatnonzero(self._rows[:, TIME] == 0)
        if len(late):
            found = self._read((late * self._stride).tolist())
            self._rows[late[: len(found)]] = found

    def _read(self, numbers: range | list[int]) -> Rows:
        if self._stride == 1 and isinstance(numbers, range):
            return self._segment.read(numbers.start, max(numbers.start, numbers.stop))
        return self._segment.read_runs([(number, number + 1) for number in numbers])
