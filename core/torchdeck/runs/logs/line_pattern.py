"""User-defined regular expression for lines, aborted if matching would take forever.

Python's own engine cannot be interrupted; that of the package `regex` can, and lets other threads continue
meanwhile. Limits are in seconds of this process's CPU time, so that a busy machine does not cause an abort.
"""

from __future__ import annotations

import re

import regex

from torchdeck.contract.refusal import Refusal

SECONDS = 2.0
"""Time limit of one search."""
MOST_REPEATED = 1000
"""Maximum repetitions of one item: `regex` expands each, {100} in {100} to 10,000."""
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?P<count>\d+)[^}]*\}|.", re.DOTALL)
"""An escaped character, a character set, a count, or a character."""
_NOT_IN_BLOCKS = re.compile(r"\(\?(?!:)|\(\*|[*+?}]\+|\\[AGKRXZ]")
"""Constructs that may keep a pattern from being found in many lines though one of them matches."""


class PatternError(Refusal, ValueError):
    """The text is not a regular expression; the message says where."""


class SlowPatternError(Refusal):
    """The pattern takes too long; the message says what to write instead."""

    def __init__(self, where: str = "") -> None:
        super().__init__(
            f"This expression takes too long{where}: "
            "avoid a repetition inside a repetition, such as (a+)+, or looking for .* twice"
        )


class LinePattern:
    """Regular expression that is matched against one line at a time."""

    def __init__(self, text: str, *, match_case: bool = False) -> None:
        """Compile the pattern.

        Raises:
            PatternError: it is not a regular expression.
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
        """Return whether the line matches.

        Raises:
            SlowPatternError: no result after that many seconds.
        """
        try:
            return self._pattern.search(line, timeout=seconds) is not None
        except TimeoutError:
            raise SlowPatternError from None

    def spans(self, line: str, seconds: float = SECONDS) -> list[tuple[int, int]]:
        """Return the matches in the line, as (first character, character after the last); without empty
        matches.

        Raises:
            SlowPatternError: no result after that many seconds.
        """
        try:
            found = [match.span() for match in self._pattern.finditer(line, timeout=seconds)]
        except TimeoutError:
            raise SlowPatternError from None
        return [(first, last) for first, last in found if last > first]

    @property
    def takes_blocks(self) -> bool:
        """Whether `first_near` can be used."""
        return self._in_bytes is not None

    def first_near(self, block: bytes, start: int, seconds: float = SECONDS) -> int | None:
        """Return a byte of the first line that may match, in many lines of ASCII from byte `start` on.

        Raises:
            SlowPatternError: no result after that many seconds.
        """
        assert self._in_bytes is not None  # noqa: S101 - `takes_blocks` was asked
        try:
            match = self._in_bytes.search(block, start, timeout=seconds)
        except TimeoutError:
            raise SlowPatternError from None
        return None if match is None else match.start()

    def _for_blocks(self) -> regex.Pattern[bytes] | None:
        """Return the pattern for a block of many lines; None if it could miss a line there."""
        text = self.text
        if not text.isascii() or _NOT_IN_BLOCKS.search(text):
            return None
        try:
            return regex.compile(text.encode(), self._flags | regex.MULTILINE)
        except regex.error:  # valid for characters, but not for bytes
            return None


def _refuse_repetition(text: str) -> None:
    """Raise ValueError if an item is repeated too many times in a row; nested counts multiply."""
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
