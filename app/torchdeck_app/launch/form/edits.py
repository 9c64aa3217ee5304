"""What the form does to the text: each a name for the history and a change of the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torchdeck.config.problems import dotted, shown
from torchdeck.config.toml.document import KeyPath
from torchdeck.config.toml.edit import (
    EditError,
    add_table,
    remove_table,
    remove_value,
    rename_key,
    set_value,
)
from torchdeck_app.launch.form.groups import EXCLUSIVE

_NAMED = 30
"""Characters of a value in the name of an edit."""


@dataclass(frozen=True)
class NamedEdit:
    """A change of the text; `change` raises EditError where it cannot be made."""

    name: str
    change: Callable[[str], str]


def setting(path: KeyPath, value: Any, literal: str = "") -> NamedEdit:
    """Give a key a value; of keys that exclude each other the others are taken out."""
    others = [other for group in EXCLUSIVE if path in group for other in group if other != path]

    def change(text: str) -> str:
        for other in others:
            text = remove_value(text, other)
        return set_value(text, path, value, literal)

    return NamedEdit(f"{dotted(path)} = {literal or shown(value, _NAMED)}", change)


def resetting(path: KeyPath) -> NamedEdit:
    """Take a key, or a table with its heading, out of the text, so that the default holds."""

    def change(text: str) -> str:
        try:
            return remove_value(text, path)
        except EditError:
            return remove_table(text, path)

    return NamedEdit(f"reset {dotted(path)}", change)


def renaming(path: KeyPath, name: str) -> NamedEdit:
    """Give a key of a free table another name."""
    return NamedEdit(f"rename {dotted(path)} to {name}", lambda text: rename_key(text, path, name))


def adding(path: KeyPath, values: Mapping[str, Any]) -> NamedEdit:
    """Add one of the tables that may be there many times."""
    names = tuple(str(key) for key in path)
    return NamedEdit(f"add [[{dotted(path)}]]", lambda text: add_table(text, names, values))


def removing(path: KeyPath) -> NamedEdit:
    """Take one of many tables out."""
    return NamedEdit(f"remove {dotted(path)}", lambda text: remove_table(text, path))
