"""Log reader thread: follows, searches and copies in slices of some milliseconds."""

from __future__ import annotations

import bisect
import dataclasses
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.folders.rank_nodes import RankNodes
from torchdeck.runs.logs.line_pattern import LinePattern, PatternError, SlowPatternError
from torchdeck.runs.logs.merged import LogLine, MergedLog
from torchdeck.runs.logs.search import LineSearch, error_search
from torchdeck_app.runs.logs.messages import Choice, Found, LogPage, Search

SLICE = 0.05
"""Seconds of searching between two answers."""
COPY_LINES = 100_000
COPY_LETTERS = 1 << 24
"""Maximum letters to copy: more would block the application that pastes them."""
_AT_ONCE = 1000
_SECONDS_A_STRETCH = 1e-6


@dataclasses.dataclass(frozen=True)
class OrderResult:
    """Result of an order, in words."""

    text: str


@dataclasses.dataclass(frozen=True)
class Copied:
    """Text to copy."""

    text: str


@dataclasses.dataclass(frozen=True)
class GoTo:
    """Row to go to: of a match, an error or a moment."""

    row: int


@dataclasses.dataclass(frozen=True)
class Marked:
    """Row at the time cursor, or None."""

    row: int | None


Answer = LogPage | Found | OrderResult | Copied | GoTo | Marked
Order = tuple[Callable[["LogReader", Any], None], Any]
"""A method of the reader, and what it is called with."""


class LogReader:
    """For one thread."""

    def __init__(self, layout: RunLayout) -> None:
        self._layout = layout
        self._choice = Choice()
        self._nodes = RankNodes(layout)
        self._log = MergedLog(layout)
        self._matches = Matches()
        self._errors: LineSearch | None = None
        self._range = (0, 200)
        self._until: float | None = None
        self._counting = False
        self._fails = False
        self._page: LogPage | None = None
        self._found: Found | None = None
        self._answers: list[Answer] = []

    @property
    def is_busy(self) -> bool:
        """Return whether there is more to read at once."""
        more = self._counting or not self._matches.are_all or self._errors is not None
        return more and not self._fails

    @property
    def rest(self) -> float:
        """Return the seconds to wait before the next poll: longer for a longer log, as each poll costs
        memory.
        """
        return self._log.stretches * _SECONDS_A_STRETCH

    def look(self, orders: Sequence[Order]) -> list[Answer]:
        """Carry out orders and read on; return the answers."""
        self._answers = []
        for carry_out, value in orders:
            carry_out(self, value)
        try:
            self._counting = self._log.advance()
            self._matches.seek(SLICE)
            page = self._read()
            self._fails = False
        except OSError as error:
            self._fails = True
            page = self._unreadable(error)
        if page != self._page:
            self._page = page
            self._answers.insert(0, page)
        self._go_on()
        found = self._matches.found
        if found != self._found:
            self._found = found
            self._answers.append(found)
        return self._answers

    # orders

    def choose(self, choice: Choice) -> None:
        """Show other lines."""
        if choice == self._choice:
            return
        self._choice = choice
        self._log = MergedLog(
            self._layout,
            rank=choice.rank,
            attempt=choice.attempt,
            streams=choice.streams,
            takes=lambda attempt, rank: not choice.node or self._nodes.has(choice.node, attempt, rank),
        )
        self._errors = None
        self._matches.begin(self._log, self._matches.search)

    def look_for(self, search: Search) -> None:
        """Start another search."""
        self._matches.begin(self._log, search)

    def want(self, rows: tuple[int, int]) -> None:
        """Set the visible rows: the first and the number; the last rows if there are fewer."""
        self._range = rows

    def show_until(self, moment: float | None) -> None:
        """Show the log as of a moment; None: all."""
        self._until = moment

    def mark(self, moment: float | None) -> None:
        """Set the time cursor; None: no cursor."""
        known = moment is not None and len(self._log) > 0
        row = self._matches.row(self._log.line_at(moment)) if known and moment is not None else None
        self._answers.append(Marked(row))

    def next(self, row: int) -> None:
        """Go to the first match after `row`, wrapping around at the end."""
        self._matches.step(self._matches.line(row), forward=True)

    def previous(self, row: int) -> None:
        """Go to the last match before `row`, wrapping around at the start."""
        self._matches.step(self._matches.line(row), forward=False)

    def first_error(self, _: None) -> None:
        """Go to the first line that looks like an error."""
        self._errors = error_search(self._log)

    def copy(self, rows: tuple[int, int]) -> None:
        """Copy the rows from the first to the last one given."""
        try:
            self._copy(*rows)
        except OSError as error:
            self._answers.append(OrderResult(f"nothing copied: {error.strerror or error}"))

    # answers

    def _copy(self, first: int, last: int) -> None:
        last = min(last, self._total - 1)
        parts: list[str] = []
        letters, row = 0, first
        while row <= last and row - first < COPY_LINES and letters < COPY_LETTERS:
            lines = self._rows(row, min(_AT_ONCE, last - row + 1))
            if not lines:
                break
            parts += [f"{line.text}\n" for line in lines]
            letters += sum(len(part) for part in parts[-len(lines) :])
            row += len(lines)
        self._answers.append(Copied("".join(parts)))
        left = last + 1 - row
        more = f"; {left:,} more are too many" if left > 0 else ""
        self._answers.append(OrderResult(f"{row - first:,} lines copied{more}"))

    def _go_on(self) -> None:
        """Answer a pending order if its result is available now."""
        line = self._matches.stepped()
        if line is not None:
            self._answers.append(GoTo(self._matches.row(line)))
        seeking = self._errors
        if seeking is None:
            return
        limit = time.monotonic() + SLICE
        try:
            while not seeking.is_over and time.monotonic() < limit:
                found = seeking.step()
                if found:
                    self._errors = None
                    self._answers.append(GoTo(self._matches.row(found[0])))
                    self._answers.append(OrderResult(""))
                    return
        except (OSError, Refusal) as error:
            self._errors = None
            why = error.strerror or error if isinstance(error, OSError) else error
            self._answers.append(OrderResult(f"the logs cannot be searched: {why}"))
            return
        if seeking.is_over and not self._counting:
            self._errors = None
            self._answers.append(OrderResult("no error found"))
        else:
            self._answers.append(OrderResult(f"no error in {seeking.at:,} lines yet…"))

    @property
    def _total(self) -> int:
        total = len(self._matches) if self._matches.are_shown_alone else len(self._log)
        if self._until is not None:
            total = min(total, self._matches.row(self._log.line_at(self._until)))
        return total

    def _rows(self, first: int, count: int) -> list[LogLine]:
        if not self._matches.are_shown_alone:
            return self._log.read(first, count)
        numbers = self._matches.numbers[first : first + count]
        return [line for number in numbers for line in self._log.read(number, 1)]

    def _read(self) -> LogPage:
        total = self._total
        first, count = self._range
        first = max(0, min(first, total - count))
        return LogPage(
            choice=self._choice,
            search=self._matches.search,
            first=first,
            lines=tuple(self._rows(first, min(count, total - first))),
            total=total,
            ranks=tuple(self._log.ranks),
            attempts=tuple(self._layout.attempt_numbers()),
            is_counting=self._counting,
            nodes=self._nodes.now(),
            node_names=self._nodes.names(),
        )

    def _unreadable(self, error: OSError) -> LogPage:
        said = f"the logs cannot be read: {error.strerror or error}"
        if self._page is None:
            return LogPage(self._choice, self._matches.search, 0, (), 0, problem=said)
        return dataclasses.replace(self._page, problem=said)


MOST_FOUND = 1_000_000
"""Maximum number of matches stored: 8 MB."""


class Matches:
    """Ascending line numbers of the matches in a growing log."""

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
        """Search `log` from its first line, unless this search is already active."""
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
        """Whether to hide lines without a match."""
        return self.search.only_matches and self._seeking is not None

    @property
    def are_all(self) -> bool:
        """Return whether all lines were searched, or the maximum of matches is reached."""
        return self._seeking is None or self._seeking.is_over or len(self.numbers) >= MOST_FOUND

    @property
    def found(self) -> Found:
        """Return the result so far."""
        is_cut = len(self.numbers) >= MOST_FOUND
        return Found(self.search, len(self.numbers), self._at, self.are_all, is_cut, self._problem)

    def seek(self, seconds: float) -> None:
        """Continue the search for `seconds`.

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
        """Return the row of a line of the log; if it is not shown, the row of the next shown line."""
        return bisect.bisect_left(self.numbers, line) if self.are_shown_alone else line

    def line(self, row: int) -> int:
        """Return the line of the log shown in a row."""
        return self.numbers[row] if self.are_shown_alone and 0 <= row < len(self.numbers) else row

    def step(self, line: int, *, forward: bool) -> None:
        """Go from `line` to the next or previous match as soon as it is found."""
        self._step = (line, forward)

    def stepped(self) -> int | None:
        """Return the line of the requested match; None until it is found."""
        if self._step is None:
            return None
        line, forward = self._step
        if forward:
            at = bisect.bisect_right(self.numbers, line)
        else:
            at = bisect.bisect_left(self.numbers, line) - 1
        if not 0 <= at < len(self.numbers) and not self.are_all:
            return None  # it may still be found
        self._step = None
        if not self.numbers:
            return None
        self._at = at % len(self.numbers)
        return self.numbers[self._at]
