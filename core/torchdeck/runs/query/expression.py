"""Filter expressions over values of runs: `training.lr > 1e-3 and (state = failed or tag ~ best)`.

Grammar, lowest precedence first; words are case-insensitive:

    expression = conjunction ("or" conjunction)*
    conjunction = negation ("and" negation)*
    negation = "not" negation | "(" expression ")" | comparison
    comparison = key ("=" | "!=" | "<" | "<=" | ">" | ">=" | "~") value

`~` is "contains". A value is a word, or a text in quotes. Two numbers are compared as numbers, other values
as texts without regard to case; the order of texts is not asked. A run without the key fulfils no comparison
with it. A key is the name of a value of the run, a key of run.toml or its last part, or a metric
(`metric_values`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn, Protocol

from torchdeck.contract.refusal import Refusal
from torchdeck.runs.query.metric_values import METRIC

Value = str | float
Values = Mapping[str, Sequence[Value]]
"""Key → values of a run: several for tags, none where it has none."""

_TOKENS = re.compile(
    r"\s*(?:(?P<op><=|>=|!=|[=<>~])|(?P<paren>[()])"
    r'|"(?P<quoted>[^"]*)"|(?P<word>[^\s()=<>!~"]+))'
)
_LONGEST = 1000
"""Characters of an expression."""
_DEEPEST = 50
"""Parentheses and negations within each other."""


class QueryError(Refusal):
    """An expression cannot be read; the message says where."""

    page = "window#runs"


class Expression(Protocol):
    """Condition on the values of a run."""

    def matches(self, values: Values) -> bool:
        """Return whether a run with these values fulfils it."""
        ...

    @property
    def names(self) -> frozenset[str]:
        """Return the keys that are asked for, as they are written."""
        ...


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def is_expression(text: str) -> bool:
    """Return whether a text has a comparison in it, so that it is no plain words."""
    return re.search(r"[=<>~]", text) is not None


def parsed(text: str) -> Expression:
    """Return the condition that a text says.

    Raises:
        QueryError: it is none; the message has the character from which on it is not understood.
    """
    if len(text) > _LONGEST:
        raise QueryError(f"the filter has {len(text):,} characters", fix=f"at most {_LONGEST:,} are read")
    parser = _Parser(_tokens(text))
    found = parser.expression(0)
    parser.expect_end()
    return found


def key_of(name: str, values: Values) -> str:
    """Return the key of `values` that a name means: itself, the only one that ends with it, or a metric."""
    if name in values:
        return name
    end = f".{name}"
    ends = [key for key in values if key.endswith(end) and not key.startswith(METRIC)]
    if ends:
        return ends[0] if len(ends) == 1 else name
    return f"{METRIC}{name}"


class _Comparison(NamedTuple):
    key: str
    operator: str
    value: str

    def matches(self, values: Values) -> bool:
        return any(self._holds(found) for found in values.get(key_of(self.key, values), ()))

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.key})

    def _holds(self, found: Value) -> bool:
        if self.operator == "~":
            return self.value.lower() in str(found).lower()
        one, other = number_in(found), number_in(self.value)
        if one is None or other is None:
            same = str(found).lower() == self.value.lower()
            return {"=": same, "!=": not same}.get(self.operator, False)
        return _NUMERIC[self.operator](one, other)


_NUMERIC: Mapping[str, Callable[[float, float], bool]] = {
    "=": lambda one, other: math.isclose(one, other, rel_tol=1e-12),
    "!=": lambda one, other: not math.isclose(one, other, rel_tol=1e-12),
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


class _All(NamedTuple):
    parts: tuple[Expression, ...]

    def matches(self, values: Values) -> bool:
        return all(part.matches(values) for part in self.parts)

    @property
    def names(self) -> frozenset[str]:
        return frozenset().union(*(part.names for part in self.parts))


class _Any(NamedTuple):
    parts: tuple[Expression, ...]

    def matches(self, values: Values) -> bool:
        return any(part.matches(values) for part in self.parts)

    @property
    def names(self) -> frozenset[str]:
        return frozenset().union(*(part.names for part in self.parts))


class _Not(NamedTuple):
    part: Expression

    def matches(self, values: Values) -> bool:
        return not self.part.matches(values)

    @property
    def names(self) -> frozenset[str]:
        return self.part.names


class _Parser:
    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens, self._at = tokens, 0

    def expression(self, depth: int) -> Expression:
        parts = [self._conjunction(depth)]
        while self._takes("word", "or"):
            parts.append(self._conjunction(depth))
        return parts[0] if len(parts) == 1 else _Any(tuple(parts))

    def expect_end(self) -> None:
        if self._at < len(self._tokens):
            self._fail("and, or, or the end")

    def _conjunction(self, depth: int) -> Expression:
        parts = [self._negation(depth)]
        while self._takes("word", "and"):
            parts.append(self._negation(depth))
        return parts[0] if len(parts) == 1 else _All(tuple(parts))

    def _negation(self, depth: int) -> Expression:
        if depth > _DEEPEST:
            self._fail(f"at most {_DEEPEST} parentheses within each other")
        if self._takes("word", "not"):
            return _Not(self._negation(depth + 1))
        if self._takes("paren", "("):
            inner = self.expression(depth + 1)
            if not self._takes("paren", ")"):
                self._fail(")")
            return inner
        return self._comparison()

    def _comparison(self) -> Expression:
        key = self._next("word", "a key such as training.lr")
        operator = self._next("op", "=, !=, <, <=, >, >= or ~")
        value = self._next_value()
        return _Comparison(key, operator, value)

    def _next_value(self) -> str:
        token = self._peek()
        if token is None or token.kind not in ("word", "quoted"):
            self._fail('a value, in quotes if it has spaces: "two words"')
        self._at += 1
        return token.text

    def _next(self, kind: str, expected: str) -> str:
        token = self._peek()
        if token is None or token.kind != kind:
            self._fail(expected)
        self._at += 1
        return token.text

    def _takes(self, kind: str, text: str) -> bool:
        token = self._peek()
        if token is None or token.kind != kind or token.text.lower() != text:
            return False
        self._at += 1
        return True

    def _peek(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _fail(self, expected: str) -> NoReturn:
        token = self._peek()
        where = "at its end" if token is None else f"at {token.text!r}, character {token.at + 1}"
        raise QueryError(f"the filter is not understood {where}", fix=f"expected {expected}")


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while text[at:].strip():
        match = _TOKENS.match(text, at)
        if match is None:
            raise QueryError(
                f"the filter is not understood at character {at + 1}", fix='close the quotes: "two words"'
            )
        kind = str(match.lastgroup)
        found.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return found


def number_in(value: Value) -> float | None:
    """Return the number that a value is or says; None if it is a text or NaN."""
    if isinstance(value, float | int):
        return None if math.isnan(value) else float(value)
    try:
        found = float(value.replace(",", ""))
    except ValueError:
        return None
    return found if math.isfinite(found) else None
