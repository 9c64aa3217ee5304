"""Texts in a picture: escaped, and short enough for their space."""

from __future__ import annotations

import re
import unicodedata
from xml.sax.saxutils import escape

from torchdeck.cli.plan.preview.placement import cut, node_name
from torchdeck.shown_text import shown

_WORD = re.compile(r"[\d.,]+ (?:[KMGT]?i?B|ms|s|%)(?!\w)\S*|\S+")
"""One word, or one quantity."""
_NARROW = frozenset(" .,:;'|!ijltfrI()[]·-")
_WIDE = frozenset("mwMW@%…—→")
_SAFETY = 1.04
"""Safety factor, as fonts differ; the widest of the usual ones decides."""


def escaped(text: str) -> str:
    """Escape `text` for XML, between tags or in an attribute."""
    return escape(shown(text), {'"': "&quot;"})  # `shown` leaves only what XML 1.0 can hold (section 2.2)


def text_width(text: str, size: float) -> float:
    """Estimate the width of `text` at font size `size`, in the same unit; rather too wide than too narrow."""
    return sum(map(_em, text)) * size * _SAFETY


def fitted(text: str, size: float, room: float) -> str:
    """Return `text`, its middle left out if it is wider than `room`."""
    return cut(text, lambda short: text_width(short, size) <= room)


def fitted_name(name: str, size: float, room: float) -> str:
    """Return a node's name, shortened so that its numbers stay."""
    return node_name(name, lambda short: text_width(short, size) <= room)


def wrapped(text: str, size: float, room: float) -> list[str]:
    """Wrap `text` on as many lines as it needs; a word wider than a line is shortened.

    A unit stays with its number.
    """
    lines: list[str] = []
    for word in _WORD.findall(text):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(fitted(word, size, room))
    return lines


def _em(character: str) -> float:
    """Return the width of a character in the usual sans serif fonts, in em."""
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in _NARROW:
        return 0.36
    if character in _WIDE:
        return 0.95
    return 0.69 if character.isupper() else 0.6
