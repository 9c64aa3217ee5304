"""Differences between two tables of run files, key by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torchdeck.config.problems import dotted, shown


@dataclass(frozen=True)
class Absent:
    """Stands for the value of a key that is not there."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()


@dataclass(frozen=True)
class Difference:
    """One key whose value is not the same."""

    path: tuple[str, ...]
    before: Any
    """A value of TOML, or ABSENT."""
    after: Any

    @property
    def name(self) -> str:
        """The dotted key."""
        return dotted(self.path)


def leaves(table: Mapping[str, Any], parent: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Keys with their values, tables opened; a list is one value, and so is an empty table."""
    for key, value in table.items():
        path = (*parent, key)
        if isinstance(value, Mapping) and value:
            yield from leaves(value, path)
        elif not isinstance(value, Mapping):
            yield path, value


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Every key that differs, in the order of `after`, those that are gone at the end."""
    old, new = dict(leaves(before)), dict(leaves(after))
    paths = [*new, *(path for path in old if path not in new)]
    found = (Difference(path, old.get(path, ABSENT), new.get(path, ABSENT)) for path in paths)
    return tuple(item for item in found if not same(item.before, item.after))


def same(one: Any, other: Any) -> bool:
    """Whether two values say the same; 1, 1.0 and true do not, nan and nan do."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return type(one) is type(other) and repr(one) == repr(other)


def as_shown(value: Any, limit: int = 60) -> str:
    """A value as a person reads it; a dash for ABSENT."""
    return "–" if isinstance(value, Absent) else shown(value, limit)
