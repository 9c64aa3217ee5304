"""One parameter of a search space: `training.lr=1e-4..1e-2:log`, `layers=1..8:int`, `batch=8,16`."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Union

from torchdeck.config.keys import all_keys
from torchdeck.config.overrides import Override, parse_override
from torchdeck.config.problems import Problem, shown

Value = Any
"""A plain value of a run file: bool, int, float, str, or a list of them."""
OPTION = "--over"
"""Stands for the file of a parameter given on the command line."""
SYNTAX = "KEY=LOW..HIGH, KEY=LOW..HIGH:log, KEY=LOW..HIGH:int, or KEY=VALUE,VALUE"
_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_DIGITS = 6
"""Significant digits of a number drawn from a range, so that names of runs stay readable."""
_FLAGS = {"log", "int"}


@dataclass(frozen=True)
class Range:
    """All numbers from `low` to `high`, both included."""

    low: float
    high: float
    log: bool = False
    """Draw uniformly in the logarithm."""
    whole: bool = False

    def draw(self, source: random.Random) -> int | float:
        """Return a number of the range."""
        if self.whole:
            return self._draw_whole(source)
        if self.log:
            value = math.exp(source.uniform(math.log(self.low), math.log(self.high)))
        else:
            value = source.uniform(self.low, self.high)
        return self.rounded(value)

    def rounded(self, value: float) -> float:
        """Return a number of the range with few digits."""
        return min(max(float(f"{value:.{_DIGITS}g}"), self.low), self.high)

    def _draw_whole(self, source: random.Random) -> int:
        low, high = int(self.low), int(self.high)
        if not self.log:
            return source.randint(low, high)
        # half a unit on each side: else the ends are drawn half as often as they should be
        value = math.exp(source.uniform(math.log(low - 0.5), math.log(high + 0.5)))
        return min(max(round(value), low), high)

    def has(self, value: Value) -> bool:
        """Return whether a value is in the range."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return self.low <= value <= self.high and (not self.whole or value == int(value))

    @property
    def ends(self) -> tuple[Value, ...]:
        """The smallest and the largest value, of the type that the run file takes."""
        return (int(self.low), int(self.high)) if self.whole else (self.low, self.high)


@dataclass(frozen=True)
class Choices:
    """A list of values."""

    values: tuple[Value, ...]

    def draw(self, source: random.Random) -> Value:
        """Return one of the values."""
        return source.choice(self.values)

    def has(self, value: Value) -> bool:
        """Return whether a value is one of them."""
        return any(is_same(value, each) for each in self.values)

    @property
    def ends(self) -> tuple[Value, ...]:
        """All values."""
        return self.values


Domain = Union[Range, Choices]  # noqa: UP007 - one name for annotations and isinstance


@dataclass(frozen=True)
class Parameter:
    """A key of the run file, or a placeholder in its arguments, and the values to try."""

    name: str
    domain: Domain
    text: str
    """As it was written."""

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(self.name.split("."))

    @property
    def short(self) -> str:
        """The last part of its name."""
        return self.path[-1]


def is_same(one: Value, other: Value) -> bool:
    """Return whether two values are equal and of the same kind: 1 and 1.0 are, 1 and true are not."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def parse_parameter(text: str) -> Parameter | Problem:
    """Parse one parameter; its name is checked elsewhere."""
    name, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not values:
        return Problem(name, OPTION, None, "no values are given", SYNTAX)
    if _NAME.fullmatch(name) is None:
        return Problem(name, OPTION, None, "the part before = is not a key", SYNTAX)
    found = _range(name, values) or _choices(name, values)
    return found if isinstance(found, Problem) else Parameter(name, found, text.strip())


def _range(name: str, text: str) -> Range | Problem | None:
    """Return the range that a text is; None if it does not look like one."""
    first, dots, rest = text.partition("..")
    last, *flags = rest.split(":")
    low, high = _number(first), _number(last)
    if not dots or low is None:
        return None
    if high is None or set(flags) - _FLAGS:
        return Problem(name, OPTION, None, f"{shown(text)} is not a range", SYNTAX)
    key = all_keys().get(tuple(name.split(".")))
    whole = "int" in flags or (key is not None and key.types == ("int",))
    if whole and (low != int(low) or high != int(high)):
        return Problem(name, OPTION, None, f"{shown(text)} has ends that are not whole", "whole numbers")
    if low >= high:
        return Problem(name, OPTION, None, f"{shown(text)} is empty", "a low end below the high end")
    if "log" in flags and low <= 0:
        return Problem(name, OPTION, None, f"{shown(text)} has no logarithm", "a low end above 0 for :log")
    return Range(low, high, "log" in flags, whole)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) < 2**63 else None


def _choices(name: str, text: str) -> Choices | Problem:
    values: list[Value] = []
    for item in _items(text):
        parsed = parse_override(f"{name}={item}")
        if not isinstance(parsed, Override):
            return Problem(name, OPTION, None, parsed.wrong, parsed.right)
        if isinstance(parsed.value, float) and math.isnan(parsed.value):
            return Problem(name, OPTION, None, "nan is no value to try", "numbers, true, texts, lists")
        if any(is_same(parsed.value, value) for value in values):
            return Problem(name, OPTION, None, f"{shown(parsed.value)} occurs twice", "each value once")
        values.append(parsed.value)
    return Choices(tuple(values))


def _items(text: str) -> Iterator[str]:
    """Yield the parts between commas that are outside quotes, brackets and braces."""
    depth, quote, start = 0, "", 0
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()
