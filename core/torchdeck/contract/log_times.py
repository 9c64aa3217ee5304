"""Times of a rank's output: the lengths of its two logs, once a second while they grow.

A file is rows of `ROW`, little endian: unix time f8 | bytes of stdout.log u8 | bytes of stderr.log u8. All
output below a row's length was printed at that time or before. A torn last row is not a row yet. Standard
library.
"""

from __future__ import annotations

import struct
from collections import deque
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.journal import LATEST

_ROWS_AT_ONCE = 512
ROW = struct.Struct("<dQQ")


class LogLengths(NamedTuple):
    """One row."""

    time: float
    stdout: int
    stderr: int


def whole_rows(content: bytes) -> list[LogLengths]:
    """Return the rows in `content`, which begins with one."""
    end = len(content) - len(content) % ROW.size
    return [LogLengths(*row) for row in ROW.iter_unpack(content[:end])]


class LogClock:
    """Reader of a rank's `log_times` rows for one of its logs, from the front.

    A rank that prints all day has 86,400 of them: they are read on demand and then dropped.
    """

    def __init__(self, path: Path, stream: str) -> None:
        self._path = path
        self._stream = stream
        self._read = 0
        self._rows: deque[LogLengths] = deque()
        self._last = LogLengths(0.0, 0, 0)

    @property
    def is_there(self) -> bool:
        """Whether times are recorded."""
        return self._read > 0

    def row_after(self, offset: int) -> tuple[float, int] | None:
        """Return the first row for more than `offset` bytes: its unix time, and the length of the log at that
        time.

        Args:
            offset: in bytes; never lower than in the previous call.

        Returns:
            None if it has not been recorded yet.

        Raises:
            OSError: the file exists and cannot be read.
        """
        while True:
            while self._rows:
                row = self._rows[0]
                length = row.stdout if self._stream == "stdout" else row.stderr
                if length > offset:
                    return row.time, length
                self._rows.popleft()
            if not self._read_more():
                return None

    def _read_more(self) -> bool:
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                found = whole_rows(file.read(_ROWS_AT_ONCE * ROW.size))
        except FileNotFoundError:
            return False
        self._read += len(found) * ROW.size
        for row in found:
            # a clock that was set back, or a log that was truncated: rows stay in order
            last = self._last
            when = row.time if 0 <= row.time < LATEST else last.time  # not a valid clock time otherwise
            self._last = LogLengths(
                max(when, last.time), max(row.stdout, last.stdout), max(row.stderr, last.stderr)
            )
            self._rows.append(self._last)
        return bool(found)
