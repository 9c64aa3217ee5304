"""Node names, shortened but still distinct."""

from __future__ import annotations

import re
from collections.abc import Callable

_NUMBERS = re.compile(r"\d(?:.*\d)?")
"""From the first digit to the last: the part in which node names of a cluster differ."""


def shortened(text: str, length: int) -> str:
    """Return `text` in at most `length` characters, its middle left out if it is longer."""
    return cut(text, lambda short: len(short) <= length)


def node_name(name: str, fits: Callable[[str], bool]) -> str:
    """Return `name`, or as much of it as `fits`: the suffix after its numbers goes first, then the prefix."""
    numbers = _NUMBERS.search(name)
    if fits(name) or numbers is None:
        return cut(name, fits)
    rest = name[: numbers.end()] + ("…" if numbers.end() < len(name) else "")
    for kept in range(numbers.start(), -1, -1):
        short = rest if kept == numbers.start() else f"{rest[:kept]}…{rest[numbers.start() :]}"
        if fits(short):
            return short
    return cut(name, fits)


def cut(text: str, fits: Callable[[str], bool]) -> str:
    """Return `text`, or as much of its two ends as `fits`; at least an ellipsis."""
    if fits(text):
        return text
    for kept in range(len(text) - 1, 0, -1):
        head = (kept + 1) // 2
        short = f"{text[:head]}…{text[len(text) - (kept - head) :]}"
        if fits(short):
            return short
    return "…"
