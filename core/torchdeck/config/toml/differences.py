"""Differences between two tables of run files, key by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torchdeck.config.problems import dotted, shown


@dataclass(frozen=True)
class Absent:
    """Placeholder for the value of a missing key."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()


@dataclass(frozen=True)
class Difference:
    """One key whose values differ."""

    path: tuple[str, ...]
    before: Any
    """TOML value, or ABSENT."""
    after: Any

    @property
    def name(self) -> str:
        """Dotted key."""
        return dotted(self.path)


def leaves(table: Mapping[str, Any], parent: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield keys with their values, descending into tables; a list is one value, and so is an empty table."""
    for key, value in table.items():
        path = (*parent, key)
        if isinstance(value, Mapping) and value:
            yield from leaves(value, path)
        elif not isinstance(value, Mapping):
            yield path, value


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Return every key that differs, in the order of `after`, removed ones at the end."""
    old, new = dict(leaves(before)), dict(leaves(after))
    paths = [*new, *(path for path in old if path not in new)]
    found = (Difference(path, old.get(path, ABSENT), new.get(path, ABSENT)) for path in paths)
    return tuple(item for item in found if not same(item.before, item.after))


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same; 1, 1.0 and true are not, nan and nan are."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return type(one) is type(other) and repr(one) == repr(other)


def as_shown(value: Any, limit: int = 60) -> str:
    """Format a value for display; a dash for ABSENT."""
    return "–" if isinstance(value, Absent) else shown(value, limit)
