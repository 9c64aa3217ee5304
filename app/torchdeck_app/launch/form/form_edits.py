"""Edits of the form, each with a name for the undo history."""

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

KINDS = ("recipe", "script", "module")
"""Kinds of what can be run; exactly one is used."""
EXCLUSIVE = (
    tuple(("run", kind) for kind in KINDS),
    (("training", "steps"), ("training", "epochs")),
)
"""Mutually exclusive keys: setting one resets the others."""
_NAMED = 30
"""Maximum characters of a value in the name of an edit."""


@dataclass(frozen=True)
class NamedEdit:
    """Change of the text; `change` raises EditError if it is not possible."""

    name: str
    change: Callable[[str], str]


def setting(path: KeyPath, value: Any, literal: str = "") -> NamedEdit:
    """Return an edit that sets a key; mutually exclusive keys are removed."""
    others = [other for group in EXCLUSIVE if path in group for other in group if other != path]

    def change(text: str) -> str:
        for other in others:
            text = remove_value(text, other)
        return set_value(text, path, value, literal)

    return NamedEdit(f"{dotted(path)} = {literal or shown(value, _NAMED)}", change)


def resetting(path: KeyPath) -> NamedEdit:
    """Return an edit that removes a key, or a table with its heading, so that the default applies."""

    def change(text: str) -> str:
        try:
            return remove_value(text, path)
        except EditError:
            return remove_table(text, path)

    return NamedEdit(f"reset {dotted(path)}", change)


def renaming(path: KeyPath, name: str) -> NamedEdit:
    """Return an edit that renames a key of a free table."""
    return NamedEdit(f"rename {dotted(path)} to {name}", lambda text: rename_key(text, path, name))


def adding(path: KeyPath, values: Mapping[str, Any]) -> NamedEdit:
    """Return an edit that adds one of several tables."""
    names = tuple(str(key) for key in path)
    return NamedEdit(f"add [[{dotted(path)}]]", lambda text: add_table(text, names, values))


def removing(path: KeyPath) -> NamedEdit:
    """Return an edit that removes one of several tables."""
    return NamedEdit(f"remove {dotted(path)}", lambda text: remove_table(text, path))
