"""Conversion between Python's offsets, which count characters, and Qt's, which count UTF-16 units."""

from __future__ import annotations

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
