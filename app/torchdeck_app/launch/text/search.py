"""Finding a text in a text."""

from __future__ import annotations

import re


def matches(text: str, wanted: str, *, case: bool = False, limit: int = 2000) -> list[tuple[int, int]]:
    """Where `wanted` stands in `text`: (start, end) of each place, the first `limit` of them.

    Args:
        text: what is searched.
        wanted: what for; empty is found nowhere.
        case: whether capitals count.
        limit: places at most.
    """
    if not wanted:
        return []
    pattern = re.compile(re.escape(wanted), 0 if case else re.IGNORECASE)
    found = []
    for match in pattern.finditer(text):
        found.append(match.span())
        if len(found) == limit:
            break
    return found


def next_match(found: list[tuple[int, int]], position: int, *, backwards: bool = False) -> int | None:
    """Which place comes at or after `position`, or before it, going round at the end; None without any."""
    if not found:
        return None
    if backwards:
        before = [index for index, (_, end) in enumerate(found) if end < position]
        return before[-1] if before else len(found) - 1
    return next((index for index, (start, _) in enumerate(found) if start >= position), 0)
