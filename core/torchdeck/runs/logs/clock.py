"""When the bytes of one log were printed, to the second."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from torchdeck.contract.journal import LATEST
from torchdeck.contract.log_times import ROW, LogLengths, whole_rows

_ROWS_AT_ONCE = 512


class LogClock:
    """The rows of a rank's `log_times` for one of its logs, from the front.

    A rank that talks all day has 86,400 of them: they are read as they are asked for, and forgotten then.
    """

    def __init__(self, path: Path, stream: str) -> None:
        self._path = path
        self._stream = stream
        self._read = 0
        self._rows: deque[LogLengths] = deque()
        self._last = LogLengths(0.0, 0, 0)

    @property
    def is_there(self) -> bool:
        """Somebody notes times."""
        return self._read > 0

    def row_after(self, offset: int) -> tuple[float, int] | None:
        """The first row that is of more than `offset` bytes: its unix time, and how long the log was then.

        Args:
            offset: in bytes; never below the one that was asked for before.

        Returns:
            None where nobody has noted it yet.

        Raises:
            OSError: the file is there and cannot be read.
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
            # a clock that was set back, or a log that was cut: what is read stays in order
            last = self._last
            when = row.time if 0 <= row.time < LATEST else last.time  # no clock shows another
            self._last = LogLengths(
                max(when, last.time), max(row.stdout, last.stdout), max(row.stderr, last.stderr)
            )
            self._rows.append(self._last)
        return bool(found)
