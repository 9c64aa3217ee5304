"""User-defined regular expressions for output, with limited cost per line.

Standard library, Python 3.10: checked with the config, used by the agent.
"""

from __future__ import annotations

import importlib
import logging
import math
import re
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from torchdeck.trainers.text.line import NAME_LIMIT, Line, number_in, parse_line

LINE_LIMIT = 1024
"""Maximum number of characters of a line that users' patterns see; the cost grows with a power of it."""
SLOW_MATCH = 0.2
"""Seconds of elapsed processor time, possibly shared with others; a pattern that took longer for one line is
not used again.
"""
_RUN = 32
_RUNS = re.compile(rf"(.{{1,3}}?)\1{{{_RUN // 2},}}")
_REPEATS = frozenset(("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"))
_log = logging.getLogger("torchdeck")


class PatternError(ValueError):
    """A text cannot be used as a pattern; the message says why and what is valid."""


class LineParser:
    """Parses lines by the user's patterns first, then by the known formats."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        """Make a parser.

        Args:
            patterns: regular expressions with named groups, searched for anywhere in a line. The group
                `step` is the step, every other one a metric by its name. Only the first that finds a number
                is used.

        A pattern that `compile_pattern` rejects is reported and left out: a run's config was checked before
        it began.
        """
        self._patterns = [pattern for text in patterns if (pattern := _usable(text)) is not None]

    def parse(self, line: str) -> Line | None:
        """Return what one printed line says; None if nothing. Never raises."""
        text = _shortened(line) if self._patterns else ""
        for pattern in tuple(self._patterns):
            begun = time.thread_time()
            match = pattern.search(text)
            if time.thread_time() - begun > SLOW_MATCH:
                self._patterns.remove(pattern)
                _log.warning("pattern %r takes over %s s a line: used no more", pattern.pattern, SLOW_MATCH)
            if match is not None and (reading := _reading_of(match)) is not None:
                return reading
        return parse_line(line)


def _usable(text: str) -> re.Pattern[str] | None:
    try:
        return compile_pattern(text)
    except PatternError as error:
        _log.warning("left out: %s", error)
        return None


def compile_pattern(text: str) -> re.Pattern[str]:
    """Check and compile a user's pattern.

    Raises:
        PatternError: it is not a regular expression, names no group, or has nested repeats, which can take
            practically forever for a line that almost matches.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # about syntax a later Python may read differently
            pattern = re.compile(text)
            tree = _parse_tree(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(f"{text!r} is not a regular expression: {error}") from error
    if not set(pattern.groupindex) - {"step"}:
        raise PatternError(
            f"{text!r} has no named group to take a metric from: write e.g. loss is (?P<loss>[0-9.]+)"
        )
    if any(len(name) > NAME_LIMIT for name in pattern.groupindex):
        raise PatternError(f"{text!r} has a group with a name of more than {NAME_LIMIT} characters")
    if _repeats_within(tree, inside=False):
        raise PatternError(
            f"{text!r} has a repeat, or a choice by |, within a repeat, as in (a+b?)*: a line that almost "
            "matches could take for ever; write it without, e.g. [a-z ]* for (?:[a-z]+ )*"
        )
    return pattern


def _shortened(line: str) -> str:
    """Return the line for users' patterns: a rule of 200 dashes becomes 32, since `.*-.*-.*-` costs their
    fourth power.
    """
    text = line[:LINE_LIMIT]
    return text if len(text) <= _RUN else _RUNS.sub(lambda run: run[0][:_RUN], text)


def _reading_of(match: re.Match[str]) -> Line | None:
    found = {name: _number_or_none(text) for name, text in match.groupdict().items()}
    step = found.pop("step", None)
    metrics = {name: value for name, value in found.items() if value is not None}
    if not metrics:
        return None
    return Line(metrics, int(step) if step is not None and math.isfinite(step) else None)


def _number_or_none(text: str | None) -> float | None:
    try:
        return number_in(text or "")
    except ValueError:
        return None


def _parse_tree(text: str) -> Any:
    parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
    return parser.parse(text)


def _repeats_within(tree: Any, *, inside: bool) -> bool:
    """Return whether a part of varying length, or a choice, is inside a repeat.

    Args:
        tree: a sequence of (operation, argument), as produced by Python's own parser.
        inside: whether `tree` is itself repeated.
    """
    for operation, argument in tree:
        name = str(operation)
        if name in _REPEATS:
            low, high, body = argument
            if (inside and low != high) or _repeats_within(body, inside=inside or int(high) > 1):
                return True
        elif (inside and name == "BRANCH") or any(
            _repeats_within(part, inside=inside) for part in _parts(argument)
        ):
            return True
    return False


def _parts(argument: Any) -> Iterator[Any]:
    """Yield the subpatterns in an operation's argument: of a group, a choice, a look-ahead, or any other."""
    if hasattr(argument, "getwidth"):
        yield argument
    elif isinstance(argument, (tuple, list)):
        for item in argument:
            yield from _parts(item)
