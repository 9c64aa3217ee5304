"""Node names, shortened but still distinct."""

from __future__ import annotations

import re
from collections.abc import Callable

_NUMBERS = re.compile(r"\d(?:.*\d)?")
"""From the first digit to the last: what names of nodes of a cluster differ in."""


def shortened(text: str, length: int) -> str:
    """`text` in at most `length` characters, its middle left out where it is longer."""
    return cut(text, lambda short: len(short) <= length)


def node_name(name: str, fits: Callable[[str], bool]) -> str:
    """`name`, or as much of it as `fits`: what follows its numbers goes first, then what is before them."""
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
    """`text`, or so much of its two ends that it `fits`; at least a sign that something is left out."""
    if fits(text):
        return text
    for kept in range(len(text) - 1, 0, -1):
        head = (kept + 1) // 2
        short = f"{text[:head]}…{text[len(text) - (kept - head) :]}"
        if fits(short):
            return short
    return "…"
