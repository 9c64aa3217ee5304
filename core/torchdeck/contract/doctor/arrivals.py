"""Times at which a rank reached its newest collectives: one file, replaced every few seconds by the rank.

Standard library, Python 3.10.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.contract.atomic import read_json, write_json

MOST_CALLS = 256
"""Newest collectives of a rank in one report."""
MOST_GROUPS = 64
NAME_LIMIT = 200
_VERSION = 1
_LIMIT = 64 << 10
_LATEST = 1 << 52
"""Microseconds; the year 2112."""


class GroupArrivals(NamedTuple):
    """Arrivals of one rank at collectives of one process group, oldest first."""

    group: str
    sequences: tuple[int, ...]
    times: tuple[int, ...]
    """Microseconds since `RankArrivals.begin`; when the program called the collective."""
    kinds: tuple[int, ...] = ()
    """A number for operation and size of each collective, up to 65,535; empty: all are alike."""
    spent: tuple[int, ...] = ()
    """Microseconds that the rank's device was in each collective; empty if it is not measured."""


class RankArrivals(NamedTuple):
    """One report."""

    begin: int
    """Microseconds since the epoch, on the node's clock."""
    groups: tuple[GroupArrivals, ...]


def write_arrivals(path: Path, found: RankArrivals) -> None:
    """Replace the report.

    Raises:
        OSError: it could not be written.
    """
    groups = [group._asdict() for group in found.groups]
    write_json(path, {"v": _VERSION, "begin": found.begin, "groups": groups}, durable=False)


def read_arrivals(path: Path) -> RankArrivals | None:
    """Return the report in `path`; None if there is none, or it is damaged."""
    try:
        value = read_json(path, limit=_LIMIT)
        return _checked(value)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _checked(value: Any) -> RankArrivals:
    groups = tuple(_group(group) for group in value["groups"][:MOST_GROUPS])
    found = RankArrivals(_whole(value["begin"]), groups)
    if not is_consistent(found):
        raise ValueError
    return found


def is_consistent(found: RankArrivals) -> bool:
    """Return whether each group is reported once, with as many times, kinds and durations as collectives."""
    names = {group.group for group in found.groups}
    return len(names) == len(found.groups) <= MOST_GROUPS and all(
        len(group.sequences) == len(group.times)
        and all(len(optional) in (0, len(group.times)) for optional in (group.kinds, group.spent))
        for group in found.groups
    )


def _group(value: dict[str, Any]) -> GroupArrivals:
    name = value["group"]
    sequences, times, kinds, spent = (_wholes(value[key]) for key in GroupArrivals._fields[1:])
    if not isinstance(name, str):
        raise TypeError
    return GroupArrivals(name[:NAME_LIMIT], sequences, times, kinds, spent)


def _wholes(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > MOST_CALLS:
        raise ValueError
    return tuple(_whole(item) for item in value)


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < _LATEST:
        raise ValueError
    return value
