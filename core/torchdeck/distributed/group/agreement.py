"""Checks once at the start that all ranks have the same values, before a difference wastes a night.

Only numbers are exchanged, in sums over all ranks to which each rank contributes its own slot and zeros
elsewhere. No message of a rank is unpickled, and any backend can do it. If all agree, it is one small
reduction.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError, shown
from torchdeck.contract.bounded_json import JsonError, parse_json
from torchdeck.distributed.recipe_loading import RecipeError

_DIGEST_BYTES = 6
"""48 bits: a whole number that float64 represents exactly."""
_DIGESTS = 4
_LONGEST = 8 << 20
"""Maximum bytes of a text from another rank."""
_SHOWN = 100
"""Bytes of a value to display."""
_NAMED = 5
"""Number of differing fields to name."""


@runtime_checkable
class Group(Protocol):
    """The used part of the interface of `ProcessGroup`."""

    rank: int
    world_size: int

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return each of `values` summed over all ranks."""

    def minimum(self, values: Sequence[float]) -> list[float]:
        """Return the minimum of each of `values` over all ranks."""


class AgreementError(RecipeError):
    """Ranks differ in a value that must be the same; the message names it, the ranks and their values."""

    page = "library#every-rank-makes-the-same-calls"


@runtime_checkable
class CallingGroup(Protocol):
    """A group whose ranks notice if some of them do not make a call: `ProcessGroup`."""

    def call(self, what: str, detail: str = "", *, timeout: float | None = None) -> None:
        """Return once every rank has made this call."""


@arguments()
def check_agreement(
    group: Group,
    values: Mapping[str, Any],
    *,
    what: str = "settings",
    advice: str = "Start every rank with the same config and seed",
) -> None:
    """Check that every rank has the same values. Every rank must call it at the same place.

    Args:
        group: the joined ranks.
        values: name → JSON value; objects are compared key by key, so a whole config can be one value.
        what: name of the values in the message.
        advice: end of the message.

    Raises:
        AgreementError: they differ; raised on every rank, with the field, two ranks and their values.
        MissingCallError: a rank did not call it within the group's timeout; the message names it.
        ArgumentError: `group` is not a group of ranks.
        TypeError: a value cannot be written as JSON.
    """
    if not isinstance(group, Group):
        raise ArgumentError(f"group is {shown(group)}", fix="give strategy.group")
    if isinstance(group, CallingGroup):
        group.call("check_agreement", what)
    require_same(group, values, what=what, advice=advice)


def require_same(
    group: Group,
    values: Mapping[str, Any],
    *,
    what: str = "settings",
    advice: str = "Start every rank with the same config and seed",
) -> None:
    """Do the same as `check_agreement` where every rank is known to come, or to have ended."""
    fields = dict(sorted(_flat("", values)))
    whole = _digest(json.dumps(fields), _DIGESTS)
    limits = group.minimum([*whole, *(-part for part in whole)])
    if limits[:_DIGESTS] == [-part for part in limits[_DIGESTS:]]:
        return
    raise AgreementError(f"{_difference(group, fields, what)}. {advice}")


def _flat(path: str, value: Any) -> list[tuple[str, str]]:
    """Return (path, JSON) of every leaf: {"a": {"b": 1}} has a.b."""
    if isinstance(value, Mapping) and (value or not path):
        return [
            leaf for key, item in value.items() for leaf in _flat(f"{path}.{key}" if path else str(key), item)
        ]
    return [(path, json.dumps(value, sort_keys=True))]


def _digest(text: str, count: int) -> list[float]:
    content = hashlib.sha256(text.encode()).digest()
    parts = (
        content[start : start + _DIGEST_BYTES] for start in range(0, count * _DIGEST_BYTES, _DIGEST_BYTES)
    )
    return [float(int.from_bytes(part, "little")) for part in parts]


def _difference(group: Group, fields: Mapping[str, str], what: str) -> str:
    """Return a description of the difference; the same on every rank."""
    names = json.dumps(list(fields))
    called = by_rank(group, _digest(names, 1))
    if len(set(called)) > 1:
        one, other = _pair(called)
        first, second = (_names(text) for text in _texts(group, (one, other), names))
        only = [f"{name} (rank {one} alone)" for name in sorted(first - second)]
        only += [f"{name} (rank {other} alone)" for name in sorted(second - first)]
        return f"ranks {one} and {other} have different {what}: {_listed(only)}"
    digests = by_rank(group, [part for text in fields.values() for part in _digest(text, 1)])
    found: list[str] = []
    for number, (name, text) in enumerate(fields.items()):
        column = [row[number] for row in digests]
        if len(set(column)) > 1:
            if len(found) < _NAMED:
                one, other = _pair(column)
                ours, theirs = _texts(group, (one, other), _short(text))
                found.append(f"{name} is {ours} on rank {one} and {theirs} on rank {other}")
            else:
                found.append(name)
    return f"ranks have different {what}: {_listed(found)}"


def _pair(column: Sequence[Any]) -> tuple[int, int]:
    """Return the first rank with the majority value, and the first with another value."""
    usual = Counter(column).most_common(1)[0][0]
    return column.index(usual), next(rank for rank, value in enumerate(column) if value != usual)


def by_rank(group: Group, mine: Sequence[float]) -> list[tuple[float, ...]]:
    """Return each rank's numbers, by rank; every rank calls it, with the same count."""
    before, after = group.rank * len(mine), (group.world_size - 1 - group.rank) * len(mine)
    everything = group.sum([*[0.0] * before, *mine, *[0.0] * after])
    return [tuple(everything[start : start + len(mine)]) for start in range(0, len(everything), len(mine))]


def _texts(group: Group, senders: tuple[int, int], mine: str) -> list[str]:
    """Return the texts of two ranks."""
    content = mine.encode()
    told = group.sum([len(content) * (group.rank == rank) for rank in senders])
    lengths = [_whole(length, _LONGEST) for length in told]
    numbers: list[float] = []
    for rank, length in zip(senders, lengths, strict=True):
        numbers += [float(byte) for byte in content] if rank == group.rank else [0.0] * length
    received = bytes(_whole(number, 255) for number in group.sum(numbers))
    return [part.decode(errors="replace") for part in (received[: lengths[0]], received[lengths[0] :])]


def _whole(number: float, most: int) -> int:
    """Return `number` as a whole number; it may be untrusted, and NaN is invalid too."""
    if not 0 <= number <= most or not float(number).is_integer():
        raise AgreementError(
            f"{number!r} came from the other ranks where a whole number up to {most} belongs"
        )
    return int(number)


def _names(text: str) -> set[str]:
    try:
        names = parse_json(text.encode())
    except JsonError as error:
        raise AgreementError(f"a rank's list of fields is refused: {error}") from None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise AgreementError("a rank sent no list of fields")
    return set(names)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _listed(found: Sequence[str]) -> str:
    more = len(found) - _NAMED
    shown = "; ".join(found[:_NAMED])
    return f"{shown}; and {more} more" if more > 0 else shown
