"""Between Python's offsets, which count characters, and Qt's, which count UTF-16 units."""

from __future__ import annotations

PARAGRAPH = "\u2029"
"""What Qt has in place of a line break."""


def units(text: str) -> int:
    """How many UTF-16 units `text` has."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def characters(text: str, count: int) -> int:
    """How many characters of `text` its first `count` UTF-16 units are."""
    if text.isascii():
        return min(count, len(text))
    return len(text.encode("utf-16-le", "surrogatepass")[: 2 * count].decode("utf-16-le", "replace"))
