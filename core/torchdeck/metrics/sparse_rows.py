"""Every so-manyth row of a segment, for who asks again while it grows."""

from __future__ import annotations

import numpy as np

from torchdeck.metrics.segment import TIME, Rows, Segment


class SparseRows:
    """Reads a row once: of a segment that has grown, only what is new. For one thread at a time."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._stride = 1
        self._generation = -1
        self._rows: Rows = np.empty((0, 0))

    def every(self, stride: int) -> Rows:
        """The rows 0, `stride`, 2 · `stride`…, and the last one.

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
        if len(new) == len(numbers):  # else it has become shorter, as the next look finds
            self._rows = whole
        if segment.rows and (segment.rows - 1) % stride:
            return np.concatenate([whole, segment.read(segment.rows - 1, segment.rows)])
        return whole

    def _read_late(self) -> None:
        """Look again for rows that were not written yet, though others behind them were."""
        late = np.flatnonzero(self._rows[:, TIME] == 0)
        if len(late):
            found = self._read((late * self._stride).tolist())
            self._rows[late[: len(found)]] = found

    def _read(self, numbers: range | list[int]) -> Rows:
        if self._stride == 1 and isinstance(numbers, range):
            return self._segment.read(numbers.start, max(numbers.start, numbers.stop))
        return self._segment.read_runs([(number, number + 1) for number in numbers])
