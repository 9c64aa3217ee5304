"""What the thread of the logs does: it follows, searches and copies, some milliseconds at a time."""

from __future__ import annotations

import bisect
import dataclasses
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.logs.line_pattern import LinePattern, PatternError, SlowPatternError
from torchdeck.runs.logs.merged import LogLine, MergedLog
from torchdeck.runs.logs.search import LineSearch, error_search
from torchdeck_app.runs.logs.page import Choice, Found, LogPage, Search
from torchdeck_app.runs.rank_nodes import RankNodes

SLICE = 0.05
"""Seconds of searching between two answers."""
COPY_LINES = 100_000
COPY_LETTERS = 1 << 24
"""What is copied at most: more would hold up whoever has it pasted."""
_AT_ONCE = 1000
_SECONDS_A_STRETCH = 1e-6


@dataclasses.dataclass(frozen=True)
class Said:
    """What came of an order, in words."""

    text: str


@dataclasses.dataclass(frozen=True)
class Copied:
    """What was to be copied."""

    text: str


@dataclasses.dataclass(frozen=True)
class GoTo:
    """The row that was asked for: of a match, an error, a moment."""

    row: int


@dataclasses.dataclass(frozen=True)
class Marked:
    """Row at the time cursor, or None."""

    row: int | None


Answer = LogPage | Found | Said | Copied | GoTo | Marked
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
        """There is more to be read at once."""
        more = self._counting or not self._matches.are_all or self._errors is not None
        return more and not self._fails

    @property
    def rest(self) -> float:
        """Seconds to wait for more: longer, the longer the log is, as each look at it costs memory."""
        return self._log.stretches * _SECONDS_A_STRETCH

    def look(self, orders: Sequence[Order]) -> list[Answer]:
        """Carry out orders and read on; what there is to tell."""
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
        """Search for something else."""
        self._matches.begin(self._log, search)

    def want(self, rows: tuple[int, int]) -> None:
        """These rows are in sight: the first, and how many; the last ones, where there are not so many."""
        self._range = rows

    def show_until(self, moment: float | None) -> None:
        """Show what was there at a moment; None: all."""
        self._until = moment

    def mark(self, moment: float | None) -> None:
        """The time cursor is there, or nowhere."""
        known = moment is not None and len(self._log) > 0
        row = self._matches.row(self._log.line_at(moment)) if known and moment is not None else None
        self._answers.append(Marked(row))

    def next(self, row: int) -> None:
        """Go to the first match behind `row`; from the last one to the first."""
        self._matches.step(self._matches.line(row), forward=True)

    def previous(self, row: int) -> None:
        """Go to the last match before `row`; from the first one to the last."""
        self._matches.step(self._matches.line(row), forward=False)

    def first_error(self, _: None) -> None:
        """Go to the first line that looks like an error."""
        self._errors = error_search(self._log)

    def copy(self, rows: tuple[int, int]) -> None:
        """Copy rows, the first and the last one given."""
        try:
            self._copy(*rows)
        except OSError as error:
            self._answers.append(Said(f"nothing copied: {error.strerror or error}"))

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
        self._answers.append(Said(f"{row - first:,} lines copied{more}"))

    def _go_on(self) -> None:
        """Tell what an order was waiting for, where it is there now."""
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
                    self._answers.append(Said(""))
                    return
        except (OSError, Refusal) as error:
            self._errors = None
            why = error.strerror or error if isinstance(error, OSError) else error
            self._answers.append(Said(f"the logs cannot be searched: {why}"))
            return
        if seeking.is_over and not self._counting:
            self._errors = None
            self._answers.append(Said("no error found"))
        else:
            self._answers.append(Said(f"no error in {seeking.at:,} lines yet…"))

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
