"""One line of a .gitignore, matched against a path and aborted if that takes too long.

`*a*a*a*a*b` becomes a regular expression that backtracks exponentially in a long name. Python's own engine
cannot be interrupted; that of the package `regex` remembers where it has failed, and can be. It is used if a
line has more than two wildcards.
"""

from __future__ import annotations

import re
from typing import Any

import regex
from pathspec.pattern import RegexMatchResult
from pathspec.patterns.gitignore import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

UNSOUND = (GitIgnorePatternError, re.error, regex.error, OverflowError, RecursionError)
"""Errors raised by an invalid line; pathspec lets some through, such as [z-a]."""
SECONDS = 1.0
"""Limit for one line and one path; a usual one takes a millionth of that."""
_FEW = 2
"""Number of wildcards up to which the time grows at most by a small power of the path's length."""
_WILDCARDS = ("[^/]*", ".+", ".*")
"""Expressions that pathspec generates for `*` and `**`."""


class SlowPatternError(Exception):
    """A line takes too long; the message names it."""

    def __init__(self, line: str) -> None:
        super().__init__(f"the line {line[:80]!r} takes too long to look for: use fewer wildcards in it")


class BoundedPattern(GitIgnoreSpecPattern):
    """A line that raises SlowPatternError if it takes too long."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        expression = "" if self.regex is None else str(self.regex.pattern)
        many = sum(map(expression.count, _WILDCARDS)) > _FEW
        self._bounded: Any = regex.compile(expression, regex.VERSION0) if many else None

    def match_file(self, file: Any) -> Any:
        """Match the pattern against `file`, a path relative to the folder of the rules."""
        if self._bounded is None:
            return super().match_file(file)
        try:
            match = self._bounded.search(file, timeout=SECONDS)
        except TimeoutError:
            raise SlowPatternError(str(self.pattern)) from None
        return None if match is None else RegexMatchResult(match)
