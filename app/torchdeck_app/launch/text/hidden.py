"""Invisible characters of a run file, or ones that change its direction: reported, never changed."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

from torchdeck.shown_text import hidden_places

_NAMED = 3
"""Maximum number of different ones reported per line."""


def hidden_characters(text: str) -> Mapping[int, tuple[str, ...]]:
    """Return line, from 1 → its hidden characters, such as "U+202E (RIGHT-TO-LEFT OVERRIDE)"."""
    found: dict[int, list[str]] = {}
    line, counted = 1, 0
    for place in hidden_places(text):
        line, counted = line + text.count("\n", counted, place), place
        names = found.setdefault(line, [])
        if len(names) < _NAMED and (name := _name(text[place])) not in names:
            names.append(name)
    return {number: tuple(names) for number, names in found.items()}


def _name(character: str) -> str:
    code = f"U+{ord(character):04X}"
    name = unicodedata.name(character, "")
    return f"{code} ({name})" if name else code
