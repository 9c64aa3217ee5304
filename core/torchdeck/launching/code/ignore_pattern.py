"""One line of a .gitignore, looked for in a path and given up where that would take for ever.

`*a*a*a*a*b` becomes a regular expression that backtracks without end in a long name. Python's own engine
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
"""What a line raises that is no pattern; pathspec lets through what it has not thought of, such as [z-a]."""
SECONDS = 1.0
"""For one line and one path; a usual one takes a millionth of that."""
_FEW = 2
"""Wildcards with which the time grows by a small power of the path's length at most."""
_WILDCARDS = ("[^/]*", ".+", ".*")
"""What pathspec makes of `*` and `**`."""


class SlowPatternError(Exception):
    """A line takes too long; the message says which."""

    def __init__(self, line: str) -> None:
        super().__init__(f"the line {line[:80]!r} takes too long to look for: use fewer wildcards in it")


class BoundedPattern(GitIgnoreSpecPattern):
    """A line that raises SlowPatternError where it takes too long."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        expression = "" if self.regex is None else str(self.regex.pattern)
        many = sum(map(expression.count, _WILDCARDS)) > _FEW
        self._bounded: Any = regex.compile(expression, regex.VERSION0) if many else None

    def match_file(self, file: Any) -> Any:
        """The match of the pattern in `file`, a path relative to the folder of the rules."""
        if self._bounded is None:
            return super().match_file(file)
        try:
            match = self._bounded.search(file, timeout=SECONDS)
        except TimeoutError:
            raise SlowPatternError(str(self.pattern)) from None
        return None if match is None else RegexMatchResult(match)
