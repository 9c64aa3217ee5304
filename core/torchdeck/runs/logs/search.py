"""Incremental regular expression search in logs of any length."""

from __future__ import annotations

import time
from collections.abc import Iterator

from torchdeck.runs.logs.line_pattern import SECONDS, LinePattern, SlowPatternError
from torchdeck.runs.logs.merged import MergedLog, as_shown

ERRORS = (
    r"\b(?:ERROR|CRITICAL|FATAL|Fatal Python error)\b|^Traceback \(most recent call last\)|"
    r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b(?::|$)|Segmentation fault|terminate called"
)
"""Beginnings of errors in the output of Python programs; case matters."""
_SIGNS = (
    b"Error",
    b"ERROR",
    b"CRITICAL",
    b"FATAL",
    b"Fatal",
    b"Traceback",
    b"Exception",
    b"Interrupt",
    b"fault",
    b"terminate",
)
"""Each line that matches `ERRORS` contains one of these."""


class LineSearch:
    """Searches a log that may grow, a block of some milliseconds per step."""

    def __init__(
        self, log: MergedLog, pattern: LinePattern, first: int = 0, *, signs: tuple[bytes, ...] = ()
    ) -> None:
        """Begin at line `first`.

        Args:
            log: log to search.
            pattern: pattern matched against each line as it is shown.
            first: first line to search.
            signs: each line that matches `pattern` contains one of these; empty if unknown.
        """
        self._log = log
        self._pattern = pattern
        self._signs = signs
        self._open: list[int] = []
        """Lines without the pattern that had no end when they were looked at."""
        self._until = 0.0
        """Limit of this thread's processor time for the current step."""
        self.at = first
        """The line that is looked at next."""

    @property
    def is_over(self) -> bool:
        """Whether the whole log has been searched."""
        return self.at >= len(self._log) and all(map(self._log.is_open, self._open))

    def step(self) -> list[int]:
        """Search the next block, and lines that have ended since they were searched.

        Returns:
            Numbers of the matching lines in it, ascending.

        Raises:
            OSError: a file cannot be read.
            SlowPatternError: the pattern takes unacceptably long for a block; another step would give no
                other result.
        """
        self._until = time.thread_time() + SECONDS
        ended = [line for line in self._open if not self._log.is_open(line)]
        self._open = [line for line in self._open if line not in ended]
        found = [line for line in ended if self._is_in(line, self._log.read(line, 1)[0].text)]
        return found + (self._next_block() if self.at < len(self._log) else [])

    def _next_block(self) -> list[int]:
        count, content = self._log.block(self.at)
        if self._signs and not any(sign in content for sign in self._signs):
            inside: Iterator[int] = iter(())
        elif not self._pattern.takes_blocks or _needs_care(content):
            lines = enumerate(content.split(b"\n")[:count])
            inside = (number for number, line in lines if self._is_in(self.at + number, as_shown(line)))
        else:
            inside = self._found(content.removesuffix(b"\n"))
        found = [self.at + number for number in inside]
        self.at += count
        if (not found or found[-1] < self.at - 1) and self._log.is_open(self.at - 1):
            self._open = sorted((*self._open, self.at - 1))
        return found

    def _found(self, content: bytes) -> Iterator[int]:
        """Yield the matching lines of `content` by searching all lines at once."""
        number = start = 0
        while (near := self._near(content, start)) is not None:
            line_start = content.rfind(b"\n", 0, near) + 1
            line_end = content.find(b"\n", near)
            line_end = len(content) if line_end < 0 else line_end
            number += content.count(b"\n", start, line_start)
            if self._is_in(self.at + number, as_shown(content[line_start:line_end])):
                yield number
            number += 1
            start = line_end + 1
            if start > len(content):
                return

    def _near(self, content: bytes, start: int) -> int | None:
        try:
            return self._pattern.first_near(content, start, self._left())
        except SlowPatternError:
            raise SlowPatternError(_after(self.at + content.count(b"\n", 0, start))) from None

    def _is_in(self, number: int, text: str) -> bool:
        try:
            return self._pattern.is_in(text, self._left())
        except SlowPatternError:
            raise SlowPatternError(_after(number)) from None

    def _left(self) -> float:
        """Return the seconds left for the current step."""
        left = self._until - time.thread_time()
        if left <= 0:
            raise SlowPatternError
        return left


def error_search(log: MergedLog) -> LineSearch:
    """Return a search for the lines in which an error begins."""
    return LineSearch(log, LinePattern(ERRORS, match_case=True), signs=_SIGNS)


def _after(line: int) -> str:
    return f", in line {line + 1:,} of the log or behind it"


def _needs_care(content: bytes) -> bool:
    """Return whether lines are shown differently from the file, or characters have more than one byte."""
    return not content.isascii() or b"\x1b" in content or b"\r" in content
