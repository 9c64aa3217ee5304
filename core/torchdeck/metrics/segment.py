"""One segment, followed as it grows. Read with pread: a mapped file kills its reader when truncated."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.metrics.former_names import current_names
from torchdeck.contract.metrics.segment_format import (
    HEADER_LIMIT,
    LATEST,
    TRAINER,
    SegmentError,
    SegmentHeader,
    decode_header,
)

Rows = NDArray[np.float64]
"""Rows as stored in the file, shape (n, 2 + keys): step (an int64 in the same bytes), time, values."""

STEP, TIME, FIRST_VALUE = 0, 1, 2
_FIRST_LOOK = 64 * 1024
_BYTES_AT_ONCE = 16 * 1024 * 1024
_SEARCHED = 64 * 1024 * 1024
"""Maximum bytes of holes at the end of a file that are searched for its last row."""


def steps_of(rows: Rows) -> NDArray[np.int64]:
    """Return the steps of `rows`, shape (n,)."""
    return rows.view(np.int64)[:, STEP]


class Segment:
    """A metrics file and its read position.

    Attributes:
        header: None until it is complete.
        problem: why the file cannot be read, as text; None while it can.
        rows: whole rows, holes at the end not counted.
        last: the newest row as (step, time, *values); None without rows.
        generation: counts how often the file was truncated, so that derived data is rebuilt.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: SegmentHeader | None = None
        self._keys: tuple[str, ...] = ()
        self.problem: str | None = None
        self.rows = 0
        self.last: tuple[float, ...] | None = None
        self.generation = 0
        self._size = 0
        self._refused = False
        self._first: tuple[int, float] | None = None

    def refresh(self) -> int:
        """Poll for appended rows. Return how many there are. A file that did not grow is not read."""
        if self._refused:
            return 0
        try:
            size = self.path.stat().st_size
            self.problem = None
            if size == self._size or (self.header is None and not self._read_header()):
                return 0
            return self._grown_to(size)
        except SegmentError as error:
            self._refused = True
            self.problem = f"{self.path}: {error}"
        except OSError as error:
            self.problem = f"{self.path} cannot be read: {error.strerror or error}"
        return 0

    def column(self, key: str) -> int:
        """Return the column of `Rows` that holds `key`."""
        return FIRST_VALUE + self.keys.index(key)

    @property
    def keys(self) -> tuple[str, ...]:
        return self._keys

    @property
    def first_step(self) -> int | None:
        """Step of the first row; None without rows."""
        first = self._first_row()
        return None if first is None else first[0]

    @property
    def first_time(self) -> float | None:
        """Unix time of the first row; None without rows."""
        first = self._first_row()
        return None if first is None else first[1]

    def read(self, first: int, last: int) -> Rows:
        """Return rows `first` to `last` - 1; fewer if the file was truncated.

        Raises:
            OSError: the file cannot be read.
        """
        return self.read_runs([(first, last)])

    def read_runs(self, runs: Sequence[tuple[int, int]]) -> Rows:
        """Return the rows of several ranges (first, last + 1), one after the other.

        Raises:
            OSError: the file cannot be read.
        """
        assert self.header is not None, "a segment with rows has a header"  # noqa: S101 - narrows the type
        width = self.header.row_bytes
        rows = np.empty((sum(last - first for first, last in runs), FIRST_VALUE + len(self.keys)))
        space = rows.reshape(-1).view(np.uint8).data
        filled = 0
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for first, last in runs:
                wanted = (last - first) * width
                got = _read_into(
                    descriptor, space[filled : filled + wanted], self.header.length + first * width
                )
                filled += got - got % width
                if got < wanted:
                    break
        finally:
            os.close(descriptor)
        found = rows[: filled // width]
        times = found[:, TIME]
        # not a valid clock time: treated as if the row was never written
        times[~((times > 0) & (times < LATEST))] = 0
        return found

    def rows_at_once(self, most: int) -> int:
        """Return how many rows to read at once: `most`, or fewer for a segment with very many metrics."""
        assert self.header is not None, "the header comes first"  # noqa: S101 - narrows the type
        return max(1, min(most, _BYTES_AT_ONCE // self.header.row_bytes))

    def blocks_at_once(self, most: int, rows: int) -> int:
        """Return the same for blocks of so many `rows`."""
        return max(1, self.rows_at_once(most * rows) // rows)

    def _first_row(self) -> tuple[int, float] | None:
        if self._first is None and self.rows:
            found = self.read(0, 1)
            self._first = (int(steps_of(found)[0]), float(found[0, TIME])) if len(found) else None
        return self._first

    def _read_header(self) -> bool:
        with open_regular(self.path) as file:
            start = file.read(_FIRST_LOOK)
            if b"\n" not in start and len(start) == _FIRST_LOOK:
                start += file.read(HEADER_LIMIT - _FIRST_LOOK)
        self.header = decode_header(start)
        if self.header is not None:
            keys = self.header.keys
            # only the trainer has names of an earlier version
            self._keys = current_names(keys) if self.header.source == TRAINER else keys
        return self.header is not None

    def _grown_to(self, size: int) -> int:
        assert self.header is not None, "the header comes first"  # noqa: S101 - narrows the type
        rows = max(0, size - self.header.length) // self.header.row_bytes
        if rows < self.rows:
            self.generation += 1
            self.rows, self._first = 0, None
        before = self.rows
        self.rows, self.last = self._without_holes_at_end(before, rows)
        self._size = size if self.rows == rows else 0  # holes may be filled without the size changing
        return self.rows - before

    def _without_holes_at_end(self, low: int, high: int) -> tuple[int, tuple[float, ...] | None]:
        """Return the number of rows up to the last written one, and that row; searched backwards from
        `high`.
        """
        length, left = 1, _SEARCHED
        while high > low and left > 0:
            first = max(low, high - length)
            part = self.read(first, high)
            written = np.flatnonzero(part[:, TIME] != 0)
            if len(written):
                row = part[written[-1]]
                step = int(steps_of(part)[written[-1]])
                return first + int(written[-1]) + 1, (step, *row[TIME:].tolist())
            left -= (high - first) * self.header.row_bytes if self.header else left
            high, length = first, self.rows_at_once(length * 16)
        return low, self.last if low else None


def _read_into(descriptor: int, space: memoryview, offset: int) -> int:
    """Fill `space` from `offset` on. Return the number of bytes read."""
    done = 0
    while done < len(space):
        got = os.preadv(descriptor, [space[done:]], offset + done)
        if got == 0:
            break
        done += got
    return done
