"""Notes how long a rank's logs are, so that a reader knows when a line was printed. No one else does."""

from __future__ import annotations

import time
from pathlib import Path

from torchdeck.contract.layout import RankLayout
from torchdeck.contract.log_times import ROW, LogLengths, whole_rows


class LogTimes:
    """Appends a row to one rank's log_times when its logs have grown since the last."""

    def __init__(self, rank: RankLayout) -> None:
        self._rank = rank
        self._last: LogLengths | None = None

    def note(self) -> bool:
        """Look at the logs; whether there was something to write down.

        Raises:
            OSError: it cannot be written.
        """
        now = LogLengths(time.time(), _length(self._rank.stdout), _length(self._rank.stderr))
        if self._last is None:
            self._last = self._written()
        if now[1:] == self._last[1:]:
            return False
        with self._rank.log_times.open("ab") as file:
            torn = file.tell() % ROW.size
            if torn:  # an agent died, or the disk was full, in the middle of a row
                file.truncate(file.tell() - torn)
            file.write(ROW.pack(*now))
        self._last = now
        return True

    def _written(self) -> LogLengths:
        """The last row that an agent wrote."""
        try:
            with self._rank.log_times.open("rb") as file:
                rows = file.seek(0, 2) // ROW.size
                file.seek(max(0, rows - 1) * ROW.size)
                found = whole_rows(file.read(ROW.size))
        except FileNotFoundError:
            found = []
        return found[-1] if found else LogLengths(0.0, 0, 0)


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
