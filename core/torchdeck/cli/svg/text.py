"""Texts in a picture: escaped, and short enough for where they stand."""

from __future__ import annotations

import re
import unicodedata
from xml.sax.saxutils import escape

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold (section 2.2)."""
_NARROW = frozenset(" .,:;'|!ijltfrI()[]·-")
_WIDE = frozenset("mwMW@%…—→")
_SAFETY = 1.04
"""Fonts differ; the widest of the usual ones decides."""


def escaped(text: str) -> str:
    """`text` as it may stand in XML, between tags or in an attribute."""
    return escape(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text), {'"': "&quot;"})


def text_width(text: str, size: float) -> float:
    """About how wide `text` is at font size `size`, in the same unit; rather too wide than too narrow."""
    return sum(map(_em, text)) * size * _SAFETY


def fitted(text: str, size: float, room: float) -> str:
    """`text`, its middle left out where it is wider than `room`."""
    if text_width(text, size) <= room:
        return text
    for kept in range(len(text) - 1, 0, -1):
        head = (kept + 1) // 2
        short = f"{text[:head]}…{text[len(text) - (kept - head) :]}"
        if text_width(short, size) <= room:
            return short
    return "…"


def wrapped(text: str, size: float, room: float) -> list[str]:
    """`text` on as many lines as it needs; a word wider than a line is shortened."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(fitted(word, size, room))
    return lines


def _em(character: str) -> float:
    """Width of a character in the usual sans serif fonts, in em."""
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in _NARROW:
        return 0.36
    if character in _WIDE:
        return 0.95
    return 0.69 if character.isupper() else 0.6
