"""A regular expression that a person typed: looked for in lines, and given up where it would take for ever.

Python's own engine cannot be interrupted; that of the package `regex` can, and lets other threads go on
meanwhile. Limits are in seconds of this process's processor time, so that a busy machine gives nothing up.
"""

from __future__ import annotations

import re

import regex

from torchdeck.contract.refusal import Refusal

SECONDS = 2.0
"""What one look may take."""
MOST_REPEATED = 1000
"""Times that one thing may be asked for in a row: `regex` writes each out, {100} in {100} as 10,000."""
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?P<count>\d+)[^}]*\}|.", re.DOTALL)
"""An escaped letter, a set of letters, a count, or a letter."""
_NOT_IN_BLOCKS = re.compile(r"\(\?(?!:)|\(\*|[*+?}]\+|\\[AGKRXZ]")
"""What may keep a pattern from being found in many lines though one of them has it."""


class PatternError(Refusal, ValueError):
    """What was typed is no regular expression; the message says where."""


class SlowPatternError(Refusal):
    """It takes too long; the message says what to write instead."""

    def __init__(self, where: str = "") -> None:
        super().__init__(
            f"This expression takes too long{where}: "
            "avoid a repetition inside a repetition, such as (a+)+, or looking for .* twice"
        )


class LinePattern:
    """Looked for in one line at a time."""

    def __init__(self, text: str, *, match_case: bool = False) -> None:
        """The pattern.

        Raises:
            PatternError: it is none.
        """
        self.text = text
        self.match_case = match_case
        self._flags = regex.VERSION0 | (0 if match_case else regex.IGNORECASE)
        try:
            _refuse_repetition(text)
            self._pattern = regex.compile(text, self._flags)
        except (regex.error, OverflowError, RecursionError, ValueError) as error:
            at = getattr(error, "pos", None)
            where = "" if at is None else f" at character {at + 1}"
            said = getattr(error, "msg", str(error))
            raise PatternError(f"no regular expression{where}: {said}") from error
        self._in_bytes = self._for_blocks()

    def is_in(self, line: str, seconds: float = SECONDS) -> bool:
        """Whether the line has it.

        Raises:
            SlowPatternError: nobody knows after that many seconds.
        """
        try:
            return self._pattern.search(line, timeout=seconds) is not None
        except TimeoutError:
            raise SlowPatternError from None

    def spans(self, line: str, seconds: float = SECONDS) -> list[tuple[int, int]]:
        """Where in the line it is, as (first letter, letter behind the last); nothing of what is empty.

        Raises:
            SlowPatternError: nobody knows after that many seconds.
        """
        try:
            found = [match.span() for match in self._pattern.finditer(line, timeout=seconds)]
        except TimeoutError:
            raise SlowPatternError from None
        return [(first, last) for first, last in found if last > first]

    @property
    def takes_blocks(self) -> bool:
        """`first_near` can be asked."""
        return self._in_bytes is not None

    def first_near(self, block: bytes, start: int, seconds: float = SECONDS) -> int | None:
        """A byte of the first line that may have it, of many lines of ASCII from byte `start` on.

        Raises:
            SlowPatternError: nobody knows after that many seconds.
        """
        assert self._in_bytes is not None  # noqa: S101 - `takes_blocks` was asked
        try:
            match = self._in_bytes.search(block, start, timeout=seconds)
        except TimeoutError:
            raise SlowPatternError from None
        return None if match is None else match.start()

    def _for_blocks(self) -> regex.Pattern[bytes] | None:
        """For a block of many lines; None where it could miss a line there."""
        text = self.text
        if not text.isascii() or _NOT_IN_BLOCKS.search(text):
            return None
        try:
            return regex.compile(text.encode(), self._flags | regex.MULTILINE)
        except regex.error:  # what letters can be asked for, and bytes cannot
            return None


def _refuse_repetition(text: str) -> None:
    """Raises ValueError: something is asked for too many times in a row; counts in each other multiply."""
    groups, last = [1], 1
    for token in _TOKEN.finditer(text):
        if token["count"] is not None:
            last *= int(token["count"])
        elif token[0] == "(":
            groups.append(1)
            last = 1
        elif token[0] == ")" and len(groups) > 1:
            last = groups.pop()
        else:
            last = 1
        groups[-1] = max(groups[-1], last)
        if last > MOST_REPEATED:
            raise ValueError(f"something is asked for more than {MOST_REPEATED:,} times in a row")
