"""Output of all ranks as one list of lines, in the order of printing, as far as that is known."""

from __future__ import annotations

import bisect
import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.log_times import LogClock
from torchdeck.runs.logs.line_index import LineIndex
from torchdeck.shown_text import shown_log

# Pieces of log files in the order of printing.


@dataclass(frozen=True)
class Source:
    """One log file."""

    attempt: int
    rank: int
    stream: str
    """`stdout` or `stderr`."""


@dataclass(eq=False)
class Followed:
    """A file and how much of it is in the list."""

    source: Source
    index: LineIndex
    clock: LogClock
    is_live: bool
    """Whether new output is printed now, not long ago."""
    is_behind: bool = True
    """Whether it has more than was counted."""
    taken: int = 0
    """Lines that are in the list, or wait for it."""
    waiting: list[Stretch] = field(default_factory=list)
    """Waits until earlier output of other files is counted."""

    @property
    def reached(self) -> float:
        """Unix time up to which it was counted; -inf if unknown."""
        moment = self.waiting[-1].time if self.waiting else None
        return -math.inf if moment is None else moment

    @property
    def is_untimed(self) -> bool:
        """Whether no print times were recorded."""
        return self.index.size > 0 and not self.clock.is_there

    def take(self) -> None:
        """Split what was counted and not yet taken at the rows of the clock."""
        while self.taken < self.index.lines:
            row = self.clock.row_after(self.index.offset(self.taken))
            end = self.index.lines
            moment = None
            if row is not None:
                moment, length = row
                end = max(self.taken + 1, self.index.line_at(length))
            elif self.is_live or self.clock.is_there:
                moment = self.index.written  # printed this second: the agent records it later
            self.waiting.append(Stretch(self, self.taken, end - self.taken, moment))
            self.taken = end

    def ready(self, known: float) -> list[Stretch]:
        """Return the stretches that need not wait: from before `known` (unix time), or of unknown time."""
        parts = enumerate(self.waiting)
        count = next((at for at, part in parts if part.time is not None and part.time >= known), None)
        count = len(self.waiting) if count is None else count
        found, self.waiting = self.waiting[:count], self.waiting[count:]
        return found


@dataclass(frozen=True)
class Stretch:
    """Consecutive lines of one file in the list."""

    file: Followed
    first: int
    count: int
    time: float | None


class Stretches:
    """All stretches in the order of the list, 28 bytes each: a rank with much output makes one per second."""

    def __init__(self) -> None:
        self._files: list[Followed] = []
        self._numbers: dict[Source, int] = {}
        self._file = array("i")
        self._first = array("q")
        self._time = array("d")
        self._start = array("q")
        self.lines = 0

    def __len__(self) -> int:
        return len(self._start)

    def append(self, stretch: Stretch) -> None:
        number = self._numbers.setdefault(stretch.file.source, len(self._files))
        if number == len(self._files):
            self._files.append(stretch.file)
        self._file.append(number)
        self._first.append(stretch.first)
        self._time.append(math.nan if stretch.time is None else stretch.time)
        self._start.append(self.lines)
        self.lines += stretch.count

    def at(self, line: int) -> int:
        """Return the stretch that contains `line` of the list."""
        return bisect.bisect_right(self._start, line) - 1

    def start(self, number: int) -> int:
        """Return the number in the list of a stretch's first line."""
        return self._start[number] if number < len(self._start) else self.lines

    def __getitem__(self, number: int) -> Stretch:
        moment = self._time[number]
        return Stretch(
            self._files[self._file[number]],
            self._first[number],
            self.start(number + 1) - self._start[number],
            None if math.isnan(moment) else moment,
        )

    def since(self, moment: float) -> int:
        """Return the first stretch from which on nothing is known to be earlier than `moment`."""
        if not len(self):
            return 0
        earlier = np.flatnonzero(np.frombuffer(self._time, np.float64) < moment)
        return int(earlier[-1]) + 1 if len(earlier) else 0


STREAMS = ("stdout", "stderr")
AT_ONCE = 1 << 25
"""Bytes counted per poll; longer output takes several polls."""
_PIECE = 1 << 20
"""Bytes of one file counted before the next file's turn."""


@dataclass(frozen=True)
class LogLine:
    """One displayed line."""

    source: Source
    number: int
    """Number in its file, from 0."""
    time: float | None
    """Unix time by which it was printed, to the second; None if it was not recorded."""
    text: str


class MergedLog:
    """Lines of some files of a run, by number. It only grows; use it from one thread at a time.

    Lines of the same second are ordered by rank and stream. Output of the last second, whose time no agent
    has recorded yet, comes in the order in which it was found, with the time at which its file was written.
    """

    def __init__(
        self,
        layout: RunLayout,
        *,
        rank: int | None = None,
        attempt: int | None = None,
        streams: tuple[str, ...] = STREAMS,
        takes: Callable[[int, int], bool] = lambda _attempt, _rank: True,
    ) -> None:
        """Initialise without reading; the first `advance` reads.

        Args:
            layout: layout of the run.
            rank: rank whose lines are read; None: all ranks.
            attempt: attempt whose lines are read; None: all.
            streams: some of `STREAMS`.
            takes: whether lines of an attempt and a rank are wanted; called at every poll until they are.
        """
        self._layout = layout
        self._rank = rank
        self._attempt = attempt
        self._streams = streams
        self._takes = takes
        self._files: dict[Source, Followed] = {}
        self._stretches = Stretches()
        self._looked = False

    def __len__(self) -> int:
        """Return the number of lines so far."""
        return self._stretches.lines

    @property
    def ranks(self) -> list[int]:
        """Ranks that have output, or may get some."""
        return sorted({source.rank for source in self._files})

    @property
    def stretches(self) -> int:
        """Number of pieces in the list: 28 bytes of memory each."""
        return len(self._stretches)

    def advance(self, limit: int = AT_ONCE) -> bool:
        """Add new output. Return whether there is more than the limit allowed.

        If logs take several polls, the earliest lines come first: a line waits until no file that is not
        fully counted can have an earlier one.

        Raises:
            OSError: a file cannot be read.
        """
        self._discover()
        self._count(limit)
        behind = [file for file in self._files.values() if file.is_behind]
        known = min((file.reached for file in behind if not file.is_untimed), default=math.inf)
        found: list[Stretch] = []
        for file in self._files.values():
            found += file.ready(known)
        found.sort(key=lambda part: (part.time is None, part.time or 0.0))
        for stretch in found:
            self._stretches.append(stretch)
        return bool(behind)

    def read(self, first: int, count: int) -> list[LogLine]:
        """Read lines `first` to `first + count - 1` of the list; fewer at its ends.

        Raises:
            OSError: a file cannot be read.
        """
        wanted = _Wanted()
        line, end = max(0, first), min(first + count, len(self))
        while line < end:
            at = self._stretches.at(line)
            stretch = self._stretches[at]
            skipped = line - self._stretches.start(at)
            count_here = min(stretch.count - skipped, end - line)
            wanted.add(stretch, stretch.first + skipped, count_here)
            line += count_here
        return wanted.read()

    def line_at(self, moment: float) -> int:
        """Return the first line printed at `moment` (unix time) or later; the last one if there is none."""
        line = self._stretches.start(self._stretches.since(moment))
        return min(line, max(0, len(self) - 1))

    def block(self, line: int) -> tuple[int, bytes]:
        """Read consecutive lines of one file from `line` of the list on, unchanged.

        Returns:
            The number of lines, at least one, and their bytes; only the beginning of a line longer than a
            block.

        Raises:
            OSError: the file cannot be read.
        """
        at = self._stretches.at(line)
        stretch = self._stretches[at]
        skipped = line - self._stretches.start(at)
        return stretch.file.index.block(stretch.first + skipped, stretch.count - skipped)

    def is_open(self, line: int) -> bool:
        """Return whether the line has no end yet: it may grow."""
        at = self._stretches.at(line)
        stretch = self._stretches[at]
        return stretch.first + line - self._stretches.start(at) >= stretch.file.index.ended

    def path(self, source: Source) -> Path:
        """Return the file of `source`."""
        files = self._layout.attempt(source.attempt).rank(source.rank)
        return files.stdout if source.stream == "stdout" else files.stderr

    def _discover(self) -> None:
        for number in self._layout.attempt_numbers():
            if self._attempt not in (None, number):
                continue
            folder = self._layout.attempt(number).ranks
            for rank in _numbers(folder):
                if self._rank in (None, rank) and self._takes(number, rank):
                    for stream in self._streams:
                        self._open(Source(number, rank, stream))

    def _open(self, source: Source) -> None:
        if source not in self._files:
            times = self._layout.attempt(source.attempt).rank(source.rank).log_times
            self._files[source] = Followed(
                source, LineIndex(self.path(source)), LogClock(times, source.stream), self._looked
            )

    def _count(self, limit: int) -> None:
        """Count what was appended, starting with the file known least far."""
        left = limit
        for file in self._files.values():
            file.is_behind = True  # until it is checked
        turn = sorted(self._files.values(), key=lambda file: file.reached)
        while turn and left > 0:
            for file in turn:
                asked = min(left, _PIECE)
                if asked <= 0:
                    break
                count = file.index.advance(asked)
                left -= count
                file.is_behind = count == asked
                file.take()
                file.is_live |= not file.is_behind
            turn = sorted((file for file in turn if file.is_behind), key=lambda file: file.reached)
        self._looked = True


class _Wanted:
    """Parts of stretches, combined so that consecutive lines of a file are read at once."""

    def __init__(self) -> None:
        self._parts: list[tuple[Stretch, int, int, int]] = []
        """Stretch, its first line and how many, and the number of the span that they lie in."""
        self._spans: list[tuple[Followed, int, int]] = []
        """A file, a first line, and how many."""
        self._newest: dict[Source, int] = {}

    def add(self, stretch: Stretch, first: int, count: int) -> None:
        source = stretch.file.source
        number = self._newest.get(source, -1)
        if number >= 0 and sum(self._spans[number][1:]) == first:
            file, start, known = self._spans[number]
            self._spans[number] = (file, start, known + count)
        else:  # the first, or the clock was set back between two
            number = self._newest[source] = len(self._spans)
            self._spans.append((stretch.file, first, count))
        self._parts.append((stretch, first, count, number))

    def read(self) -> list[LogLine]:
        texts = [file.index.read(first, count) for file, first, count in self._spans]
        found: list[LogLine] = []
        for stretch, first, count, number in self._parts:
            skipped = first - self._spans[number][1]
            lines = texts[number][skipped : skipped + count]
            lines += [b""] * (count - len(lines))  # the file was truncated meanwhile
            found += [
                LogLine(stretch.file.source, first + at, stretch.time, as_shown(text))
                for at, text in enumerate(lines)
            ]
        return found


def as_shown(line: bytes) -> str:
    """Return a line as a terminal would show it: without colours, and without text overwritten by a carriage
    return.
    """
    text = line.decode("utf-8", "replace").rstrip("\r\n").rpartition("\r")[2]
    return shown_log(text)


def _numbers(folder: Path) -> list[int]:
    try:
        return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal())
    except FileNotFoundError:
        return []
