"""Nearest valid spelling of a key or a choice."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from torchdeck.config.keys import all_keys, keys_in
from torchdeck.config.problems import dotted


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Return the words of `known` that `word` was most likely meant to be; none if nothing is near.

    These are all that are one keystroke away (two neighbours swapped is one), else the one difflib finds
    closest.
    """
    candidates = list(known)
    lowered = word.lower().replace("-", "_")
    close = [candidate for candidate in candidates if _one_keystroke(lowered, candidate.replace("-", "_"))]
    return close or difflib.get_close_matches(lowered, candidates, n=1, cutoff=0.6)


def _one_keystroke(word: str, meant: str) -> bool:
    """Return whether at most one letter was added, left out or changed, or two neighbours were swapped."""
    if word == meant:
        return True
    start = 0
    while start < min(len(word), len(meant)) and word[start] == meant[start]:
        start += 1
    a, b = word[start:], meant[start:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[:2] == b[:2][::-1] and a[2:] == b[2:])


def meant_by(path: tuple[str, ...], recipe: str | None = None) -> list[tuple[str, ...]]:
    """Return the keys that unknown key `path` may mean in a run of `recipe`.

    Near keys of its table come first, then its name in other tables.
    """
    section, name = path[:-1], path[-1]
    elsewhere = [known for known in all_keys(recipe) if known[-1] == name and known[:-1] != section]
    own = keys_in(section, recipe)
    if elsewhere:  # the exact name in another table is likelier than a distant similarity in this one
        own = [known for known in own if _one_keystroke(name.lower(), known)]
    return [(*section, near) for near in nearest(name, own)] + elsewhere


def advice(path: tuple[str, ...], meant: Sequence[tuple[str, ...]], recipe: str | None = None) -> str:
    """Return what to write instead of unknown key `path` in a run of `recipe`."""
    section = path[:-1]
    if meant:
        return " or ".join(_placed(known, section) for known in meant)
    names = ", ".join(keys_in(section, recipe))
    if section and not names:  # the table itself is unknown
        return advice(section, meant_by(section, recipe), recipe)
    return f"one of the keys of {f'[{dotted(section)}]' if section else 'a run file'}: {names}"


def _placed(known: tuple[str, ...], section: tuple[str, ...]) -> str:
    where = known[:-1]
    if where == section:
        return dotted(known)
    return f"{known[-1]} in [{dotted(where)}]" if where else f"{known[-1]} before the first table"
