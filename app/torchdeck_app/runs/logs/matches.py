"""The lines that a search has found so far, and going from one to the next."""

from __future__ import annotations

import bisect
import dataclasses
import time
from array import array

from torchdeck.runs.logs.line_pattern import LinePattern, PatternError, SlowPatternError
from torchdeck.runs.logs.merged import MergedLog
from torchdeck.runs.logs.search import LineSearch
from torchdeck_app.runs.logs.page import Found, Search

MOST_FOUND = 1_000_000
"""Matches that are kept: 8 MB."""


class Matches:
    """Ascending numbers of lines of a log that grows."""

    def __init__(self) -> None:
        self.search = Search()
        self.numbers = array("q")
        self._log: MergedLog | None = None
        self._seeking: LineSearch | None = None
        self._at: int | None = None
        self._problem = ""
        self._step: tuple[int, bool] | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def begin(self, log: MergedLog, search: Search) -> None:
        """Search `log` from its first line on, unless that is what is done already."""
        plain = dataclasses.replace(search, only_matches=False)
        same = log is self._log and plain == dataclasses.replace(self.search, only_matches=False)
        self.search, self._log = search, log
        if same:
            return
        self.numbers, self._at, self._problem = array("q"), None, ""
        self._seeking = self._step = None
        if search.pattern:
            try:
                self._seeking = LineSearch(log, LinePattern(search.pattern, match_case=search.match_case))
            except PatternError as error:
                self._problem = str(error)

    @property
    def are_shown_alone(self) -> bool:
        """Lines without a match are not shown."""
        return self.search.only_matches and self._seeking is not None

    @property
    def are_all(self) -> bool:
        """All that is there was searched, or as much as is kept."""
        return self._seeking is None or self._seeking.is_over or len(self.numbers) >= MOST_FOUND

    @property
    def found(self) -> Found:
        """What there is to say of them."""
        is_cut = len(self.numbers) >= MOST_FOUND
        return Found(self.search, len(self.numbers), self._at, self.are_all, is_cut, self._problem)

    def seek(self, seconds: float) -> None:
        """Search on for a moment.

        Raises:
            OSError: a log cannot be read.
        """
        limit = time.monotonic() + seconds
        while self._seeking is not None and not self.are_all and time.monotonic() < limit:
            try:
                for line in self._seeking.step():
                    bisect.insort(self.numbers, line)
            except SlowPatternError as error:
                self._seeking, self._problem = None, str(error)

    def row(self, line: int) -> int:
        """The row in which a line of the log is shown; of one that is not, the next one's."""
        return bisect.bisect_left(self.numbers, line) if self.are_shown_alone else line

    def line(self, row: int) -> int:
        """The line of the log that is shown in a row."""
        return self.numbers[row] if self.are_shown_alone and 0 <= row < len(self.numbers) else row

    def step(self, line: int, *, forward: bool) -> None:
        """Go from `line` to the match behind or before it, as soon as it is found."""
        self._step = (line, forward)

    def stepped(self) -> int | None:
        """The line of the match that was asked for; None while it is not found."""
        if self._step is None:
            return None
        line, forward = self._step
        if forward:
            at = bisect.bisect_right(self.numbers, line)
        else:
            at = bisect.bisect_left(self.numbers, line) - 1
        if not 0 <= at < len(self.numbers) and not self.are_all:
            return None  # it may come still
        self._step = None
        if not self.numbers:
            return None
        self._at = at % len(self.numbers)
        return self.numbers[self._at]
