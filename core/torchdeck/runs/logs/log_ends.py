"""The newest lines of a run's logs, read from their ends, and the lines since a moment.

Logs of any size cost the same: nothing before the wanted lines is read. Imports little, so that a command
that prints the last lines starts fast.
"""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.log_times import ROW, LogClock, LogLengths
from torchdeck.runs.rank_output import LONGEST_LINE, OutputLine, as_printed, rank_numbers

PIECE = 1 << 16
"""Bytes read at a time."""
_ROWS_AT_ONCE = 512


class _Line(NamedTuple):
    """A line, in the order in which lines were printed."""

    time: float
    """Unix seconds by which it was printed."""
    rank: int
    stream: int
    start: int
    text: bytes


class LogEnds:
    """Logs of a run as they are now, merged by the times at which their lines were printed.

    The order is that of the log view: lines of one second by rank and stream. A line whose time was not
    recorded counts as printed when its file was last written.

    Attributes:
        positions: (attempt, rank, stream) → bytes up to the last line that is included.
    """

    def __init__(
        self,
        layout: RunLayout,
        *,
        streams: tuple[str, ...],
        rank: int | None = None,
        ended_only: bool = False,
    ) -> None:
        """Take note of the lengths of the logs.

        Args:
            layout: layout of the run.
            streams: some of `stdout` and `stderr`.
            rank: rank whose lines are read; None: all ranks.
            ended_only: leave out a last line without an end: it is still being written.
        """
        self._attempts: list[tuple[int, list[_Log]]] = []
        self.positions: dict[tuple[int, int, str], int] = {}
        for attempt in sorted(layout.attempt_numbers()):
            folder = layout.attempt(attempt)
            logs = []
            for number in rank_numbers(folder.ranks):
                if rank in (None, number):
                    files = folder.rank(number)
                    for order, stream in enumerate(streams):
                        path = files.stdout if stream == "stdout" else files.stderr
                        log = _Log(number, order, stream, path, files.log_times, ended_only=ended_only)
                        logs.append(log)
                        self.positions[attempt, number, stream] = log.size
            self._attempts.append((attempt, logs))
        self._streams = streams

    def newest(
        self, count: int, *, since: float = -math.inf, wanted: Callable[[str], bool] = lambda _: True
    ) -> list[OutputLine]:
        """Return the last lines that are wanted, in the order in which they were printed.

        Args:
            count: maximum number of lines.
            since: unix seconds; earlier lines are left out.
            wanted: whether a line is wanted, by its text.

        Raises:
            OSError: a log cannot be read.
        """
        found: list[OutputLine] = []
        for line in self._backwards(since):
            if len(found) >= count:
                break
            if wanted(line.text):
                found.append(line)
        return found[::-1]

    def since(self, moment: float) -> Iterator[OutputLine]:
        """Yield the lines printed at `moment` (unix seconds) or later.

        Raises:
            OSError: a log cannot be read.
        """
        for attempt, logs in self._attempts:
            for line in heapq.merge(*(log.since(moment) for log in logs)):
                yield self._output(attempt, line)

    def _backwards(self, since: float) -> Iterator[OutputLine]:
        for attempt, logs in reversed(self._attempts):
            for line in heapq.merge(*(log.backwards() for log in logs), reverse=True):
                if line.time < since:
                    return
                yield self._output(attempt, line)

    def _output(self, attempt: int, line: _Line) -> OutputLine:
        return OutputLine(attempt, line.rank, self._streams[line.stream], as_printed(line.text))


class _Log:
    """One log and the times of its lines."""

    def __init__(
        self, rank: int, order: int, stream: str, path: Path, times: Path, *, ended_only: bool
    ) -> None:
        self._rank = rank
        self._order = order
        self._stream = stream
        self._path = path
        self._times = _Times(times, stream)
        self._clock_path = times
        self.size = 0
        self._written = 0.0
        with suppress(FileNotFoundError):
            status = path.stat()
            self.size, self._written = status.st_size, status.st_mtime
        if ended_only:
            self.size = self._last_end()

    def backwards(self) -> Iterator[_Line]:
        """Yield the lines, the last one first."""
        moment = math.inf
        for start, text in self._lines_from_end():
            when = self._times.of(start)
            moment = min(moment, self._written if when is None else when)
            yield self._line(moment, start, text)

    def since(self, moment: float) -> Iterator[_Line]:
        """Yield the lines from `moment` on, the first one first."""
        start = self._whole_line(self._times.length_before(moment))
        clock = LogClock(self._clock_path, self._stream)
        until, when = -1, -math.inf
        for at, text in self._lines_from(start):
            if at >= until:
                row = clock.row_after(at)
                written = max(when, self._written)
                when, until = (written, self.size) if row is None else (max(when, row[0]), row[1])
            if when >= moment:
                yield self._line(when, at, text)

    def _line(self, moment: float, start: int, text: bytes) -> _Line:
        return _Line(moment, self._rank, self._order, start, text)

    def _lines_from_end(self) -> Iterator[tuple[int, bytes]]:
        """Yield (first byte, text) of each line backwards; one that is too long in pieces."""
        start, rest = self.size, b""
        is_last = True
        while start > 0:
            length = min(PIECE, start)
            start -= length
            content = self._read(start, length) + rest
            first, *lines = content.split(b"\n")
            if is_last and lines and not lines[-1]:
                lines.pop()  # the log ends with a line end
                content = content[:-1]
            is_last = False
            end = start + len(content)
            for line in reversed(lines):
                yield end - len(line), line
                end -= len(line) + 1
            rest = first
            if len(rest) >= LONGEST_LINE or start == 0:
                yield start, rest
                rest = b""

    def _lines_from(self, start: int) -> Iterator[tuple[int, bytes]]:
        rest = b""
        while start + len(rest) < self.size:
            place = start + len(rest)
            content = self._read(place, min(PIECE, self.size - place))
            if not content:
                break
            *lines, rest = (rest + content).split(b"\n")
            for line in lines:
                yield start, line
                start += len(line) + 1
            if len(rest) >= LONGEST_LINE:
                yield start, rest
                start, rest = start + len(rest), b""
        if rest:
            yield start, rest

    def _last_end(self) -> int:
        """Return the end of the last ended line, or of the text that is too long for one."""
        content = self._read(max(0, self.size - LONGEST_LINE), min(self.size, LONGEST_LINE))
        end = content.rfind(b"\n") + 1
        return self.size if not end and self.size > LONGEST_LINE else self.size - len(content) + end

    def _whole_line(self, offset: int) -> int:
        """Return the start of the first line at `offset` or after."""
        if offset <= 0 or self._read(offset - 1, 1) == b"\n":
            return max(0, offset)
        end = self._read(offset, LONGEST_LINE).find(b"\n")
        return offset if end < 0 else offset + end + 1

    def _read(self, start: int, length: int) -> bytes:
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, length, start)
        finally:
            os.close(descriptor)


class _Times:
    """Rows of a rank's `log_times`, read from the end."""

    def __init__(self, path: Path, stream: str) -> None:
        self._path = path
        self._column = 1 if stream == "stdout" else 2
        self._first = self._rows = 0
        self._known: list[LogLengths] = []
        with suppress(FileNotFoundError):
            self._rows = path.stat().st_size // ROW.size
        self._at = self._rows

    def of(self, start: int) -> float | None:
        """Return the time of the text at byte `start`; None if it was not recorded.

        Args:
            start: in bytes; never higher than in the previous call.
        """
        while self._at > 0 and self._row(self._at - 1)[self._column] > start:
            self._at -= 1
        return self._row(self._at).time if self._at < self._rows else None

    def length_before(self, moment: float) -> int:
        """Return the length of the log at the last row before `moment`."""
        low, high = 0, self._rows
        while low < high:
            middle = (low + high) // 2
            if self._row(middle).time < moment:
                low = middle + 1
            else:
                high = middle
        return int(self._row(low - 1)[self._column]) if low else 0

    def _row(self, number: int) -> LogLengths:
        if not self._first <= number < self._first + len(self._known):
            self._first = max(0, number - _ROWS_AT_ONCE + 1)
            with self._path.open("rb") as file:
                file.seek(self._first * ROW.size)
                content = file.read((number - self._first + 1) * ROW.size)
            self._known = [LogLengths(*row) for row in ROW.iter_unpack(content)]
        return self._known[number - self._first]
