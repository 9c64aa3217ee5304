"""Pieces of log files in the order of printing."""

from __future__ import annotations

import bisect
import math
from array import array
from dataclasses import dataclass, field

import numpy as np

from torchdeck.runs.logs.clock import LogClock
from torchdeck.runs.logs.line_index import LineIndex


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
    """What comes is printed now, not long ago."""
    is_behind: bool = True
    """More of it is there than was counted."""
    taken: int = 0
    """Lines that are in the list, or wait for it."""
    waiting: list[Stretch] = field(default_factory=list)
    """Until what other files have from before was counted."""

    @property
    def reached(self) -> float:
        """Unix time up to which it was counted; -inf where that is not known."""
        moment = self.waiting[-1].time if self.waiting else None
        return -math.inf if moment is None else moment

    @property
    def is_untimed(self) -> bool:
        """Nobody noted when its lines were printed."""
        return self.index.size > 0 and not self.clock.is_there

    def take(self) -> None:
        """Cut what was counted, and not taken yet, where the clock has a row."""
        while self.taken < self.index.lines:
            row = self.clock.row_after(self.index.offset(self.taken))
            end = self.index.lines
            moment = None
            if row is not None:
                moment, length = row
                end = max(self.taken + 1, self.index.line_at(length))
            elif self.is_live or self.clock.is_there:
                moment = self.index.written  # printed this second: the agent notes it only later
            self.waiting.append(Stretch(self, self.taken, end - self.taken, moment))
            self.taken = end

    def ready(self, known: float) -> list[Stretch]:
        """What waits no more: of before `known` (unix time), or of a time that nobody knows."""
        parts = enumerate(self.waiting)
        count = next((at for at, part in parts if part.time is not None and part.time >= known), None)
        count = len(self.waiting) if count is None else count
        found, self.waiting = self.waiting[:count], self.waiting[count:]
        return found


@dataclass(frozen=True)
class Stretch:
    """Lines of one file that follow each other in the list."""

    file: Followed
    first: int
    count: int
    time: float | None


class Stretches:
    """All stretches in the order of the list, 28 bytes each: a chatty rank makes one a second."""

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
        """The stretch that `line` of the list lies in."""
        return bisect.bisect_right(self._start, line) - 1

    def start(self, number: int) -> int:
        """The number in the list of a stretch's first line."""
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
        """The first stretch from which on nothing is known to be earlier than `moment`."""
        if not len(self):
            return 0
        earlier = np.flatnonzero(np.frombuffer(self._time, np.float64) < moment)
        return int(earlier[-1]) + 1 if len(earlier) else 0
