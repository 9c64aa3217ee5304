"""What the form shows: values without widgets, made anew for each state of the document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torchdeck.config.keys import Key
from torchdeck.config.problems import Problem
from torchdeck.config.toml.document import KeyPath


@dataclass(frozen=True)
class FieldState:
    """One key of the form."""

    key: Key
    path: KeyPath
    """Where it stands; with numbers for one of many tables."""
    value: Any = None
    """What holds: written here, in a file that this one extends, or the default."""
    literal: str = ""
    """How it is written here."""
    own: bool = False
    """It is written in this text, and can be reset."""
    inherited: bool = False
    """It is written in a file that this one extends."""
    changed: bool = False
    """It differs from the default."""
    visible: bool = True
    note: str = ""
    """Why it has no effect though it is written."""
    problems: tuple[Problem, ...] = ()
    entries: tuple[tuple[FieldState, ...], ...] = ()
    """Of a table that is there many times: the fields of each."""


@dataclass(frozen=True)
class GroupState:
    """One group of fields."""

    name: str
    title: str
    description: str = ""
    summary: str = ""
    """The essential values on one line."""
    fields: tuple[FieldState, ...] = ()
    problems: tuple[Problem, ...] = ()
    """What belongs to none of its fields."""
    visible: bool = True

    @property
    def problem_count(self) -> int:
        return len(self.problems) + sum(len(field.problems) for field in self.fields)


@dataclass(frozen=True)
class FormState:
    """The whole form."""

    groups: tuple[GroupState, ...] = ()
    problems: tuple[Problem, ...] = ()
    """What belongs to no group."""
    by_path: Mapping[KeyPath, FieldState] = field(default_factory=dict)
