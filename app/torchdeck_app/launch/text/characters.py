"""Invisible characters of a run file, and Python's offsets in Qt's UTF-16 units."""

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


# Conversion between Python's offsets, which count characters, and Qt's, which count UTF-16 units.

PARAGRAPH = "\u2029"
"""Qt's substitute for a line break."""


def units(text: str) -> int:
    """Return the number of UTF-16 units of `text`."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def characters(text: str, count: int) -> int:
    """Return the number of characters in the first `count` UTF-16 units of `text`."""
    if text.isascii():
        return min(count, len(text))
    return len(text.encode("utf-16-le", "surrogatepass")[: 2 * count].decode("utf-16-le", "replace"))
