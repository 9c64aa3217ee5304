"""State of the form: values without widgets, created for each state of the document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torchdeck.config.keys import Key
from torchdeck.config.problems import Problem
from torchdeck.config.toml.document import KeyPath


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

    @property
    def problem_count(self) -> int:
        return len(self.problems) + sum(len(field.problems) for field in self.fields)


@dataclass(frozen=True)
class FormState:
    """State of the whole form."""

    groups: tuple[GroupState, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Problems that belong to no group."""
    by_path: Mapping[KeyPath, FieldState] = field(default_factory=dict)
