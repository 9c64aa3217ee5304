"""State of the form: values without widgets, and the choice of the control for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from torchdeck.config.keys import Key
from torchdeck.config.loader import WORDS
from torchdeck.config.problems import Problem
from torchdeck.config.remedies import Remedy
from torchdeck.config.toml.document import KeyPath
from torchdeck_app.launch.form.form_groups import MORE


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


# State of the form: values without widgets, created for each state of the document.


@dataclass(frozen=True)
class FieldState:
    """State of one key of the form."""

    key: Key
    path: KeyPath
    """Path of the key; with indices for one of several tables."""
    value: Any = None
    """Effective value: from this text, from a file that it extends, or the default."""
    literal: str = ""
    """Source text of the value in this text."""
    own: bool = False
    """Whether it is written in this text, and can be reset."""
    inherited: bool = False
    """Whether it is written in a file that this one extends."""
    changed: bool = False
    """Whether it differs from the default."""
    visible: bool = True
    note: str = ""
    """Why it has no effect although it is written."""
    problems: tuple[Problem, ...] = ()
    remedies: tuple[tuple[Problem, Remedy], ...] = ()
    """Changes that solve some of its problems."""
    entries: tuple[tuple[FieldState, ...], ...] = ()
    """For a repeated table: the fields of each."""


@dataclass(frozen=True)
class GroupState:
    """State of a group of fields."""

    name: str
    title: str
    description: str = ""
    summary: str = ""
    """Essential values on one line."""
    fields: tuple[FieldState, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Problems that belong to none of its fields."""
    visible: bool = True
    headings: Mapping[KeyPath, str] = field(default_factory=dict)
    """Headings of fields within the group; a field without one has an empty heading or none."""

    @property
    def problem_count(self) -> int:
        return len(self.problems) + sum(len(field.problems) for field in self.fields)


def more_of(groups: Sequence[GroupState]) -> GroupState:
    """Return the heading over `groups`: how many of their settings are set, and their problems."""
    count = sum(field.changed and field.visible for group in groups for field in group.fields)
    return GroupState(
        MORE,
        "More",
        "All other settings of a run.",
        f"{count} changed" if count else "",
        tuple(field for group in groups for field in group.fields),
        tuple(problem for group in groups for problem in group.problems),
    )


@dataclass(frozen=True)
class FormState:
    """State of the whole form."""

    groups: tuple[GroupState, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Problems that belong to no group."""
    by_path: Mapping[KeyPath, FieldState] = field(default_factory=dict)
