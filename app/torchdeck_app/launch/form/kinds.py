"""Choice of the control for a key and its value."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from torchdeck.config.keys import Key
from torchdeck.config.resolve import WORDS


class Kind(Enum):
    """Kind of control for a value."""

    SWITCH = auto()
    CHOICE = auto()
    LINE = auto()
    WORD_OR_LINE = auto()
    """Line with a few words to choose from."""
    PATH = auto()
    LINES = auto()
    """Line for each element of a list."""
    PAIRS = auto()
    """Whether it is a table with keys of the user's own."""
    TABLES = auto()
    """Repeated table."""


_LINES = {("telemetry", "patterns")}


def kind_of(key: Key, value: Any) -> Kind:
    """Return the control for `key`; a line, which can show anything, if `value` does not fit its own."""
    kind = _own_kind(key)
    fits = {
        Kind.SWITCH: lambda: isinstance(value, bool),
        Kind.LINES: lambda: isinstance(value, list) and all(isinstance(item, str) for item in value),
        Kind.PAIRS: lambda: isinstance(value, dict),
        Kind.TABLES: lambda: isinstance(value, list) and all(isinstance(item, dict) for item in value),
    }
    return kind if value is None or fits.get(kind, lambda: True)() else Kind.LINE


def words_of(key: Key) -> tuple[str, ...]:
    """Return the values of `key` that are words to choose from, in schema order."""
    if key.types == ("bool",):
        return ("true", "false")
    named = WORDS.get(key.path, frozenset())
    return tuple(map(str, key.choices)) or tuple(sorted(named, key=lambda word: (word != key.default, word)))


def _own_kind(key: Key) -> Kind:
    if key.repeated:
        return Kind.TABLES
    if key.free:
        return Kind.PAIRS
    if key.path in _LINES:
        return Kind.LINES
    if key.types == ("bool",):
        return Kind.CHOICE if key.optional else Kind.SWITCH
    if key.is_path:
        return Kind.PATH
    if key.choices:
        return Kind.WORD_OR_LINE if key.types else Kind.CHOICE
    return Kind.LINE
