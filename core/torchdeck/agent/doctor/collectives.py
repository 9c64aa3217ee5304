"""Collectives of all ranks, joined by process group and sequence number. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from torchdeck.agent.doctor.evidence import TEXT_LIMIT, Collective, RankEvidence

_SAME_SIZE = re.compile(r"all_?reduce|broadcast|_?reduce$|reduce_scatter|all_?gather")
"""Operations whose tensors have the same number of elements on all ranks."""
_PEER = re.compile(r"(\d{1,9})\s*(?:<-|->)\s*(\d{1,9})")
_MOST_ELEMENTS = 1 << 63
_DEFAULT_GROUP = ("", "default_pg", "undefined")


class Waiting(NamedTuple):
    """A rank waits in a collective for ranks that have not enqueued it."""

    rank: int
    on: frozenset[int]
    collective: Collective


class Mismatch(NamedTuple):
    """Ranks call different collectives under one sequence number."""

    calls: tuple[tuple[int, Collective], ...]


class GroupJoin:
    """One process group on all ranks that are in it.

    Attributes:
        name: as torch has it, the same on all ranks.
        ranks: its members, as far as they are known.
        shown: its name for a person; empty for the group of all ranks.
    """

    def __init__(self, name: str, ranks: Mapping[int, RankEvidence]) -> None:
        self.name = name
        self.ranks: set[int] = set()
        self.shown = ""
        self._calls: dict[int, dict[int, Collective]] = {}
        for rank, found in ranks.items():
            for group in found.groups:
                if group.group == name:
                    self.ranks |= set(group.ranks)
                    self.shown = "" if group.description in _DEFAULT_GROUP[1:2] else group.description
                    if group.description in _DEFAULT_GROUP[2:]:
                        self.shown = name
            own = {call.sequence: call for call in found.collectives if call.group == name and not call.p2p}
            if own:
                self._calls[rank] = own
        self.ranks |= set(self._calls)

    def enqueued(self, rank: int) -> int:
        """Return the sequence number of the rank's last collective, 0 before the first."""
        return max(self._calls.get(rank, {}), default=0)

    def pending(self, rank: int) -> Collective | None:
        """Return the last collective that a rank has enqueued, unless it is done."""
        calls = self._calls.get(rank, {})
        last = calls.get(self.enqueued(rank))
        return None if last is None or last.done else last

    def mismatch(self) -> Mismatch | None:
        """Return the first number under which ranks call different collectives that are not all done."""
        numbers = sorted({number for calls in self._calls.values() for number in calls})
        for number in numbers:
            calls = [(rank, own[number]) for rank, own in sorted(self._calls.items()) if number in own]
            if any(not call.done for _, call in calls) and len({signature(call) for _, call in calls}) > 1:
                return Mismatch(tuple(calls))
        return None

    def waiting(self) -> list[Waiting]:
        """Return ranks that wait for others, which have not enqueued the same collective."""
        found = []
        for rank, calls in sorted(self._calls.items()):
            others = {other: self.enqueued(other) for other in self.ranks if other != rank}
            least = min(others.values(), default=self.enqueued(rank))
            numbers = [number for number, call in calls.items() if number > least and not call.done]
            if numbers:
                call = calls[min(numbers)]
                on = frozenset(other for other, last in others.items() if last < call.sequence)
                found.append(Waiting(rank, on, call))
        return found


def joined(ranks: Mapping[int, RankEvidence]) -> list[GroupJoin]:
    """Return the groups of all ranks that had a collective."""
    names = sorted({call.group for found in ranks.values() for call in found.collectives})
    return [GroupJoin(name, ranks) for name in names]


def waiting_for_peers(ranks: Mapping[int, RankEvidence]) -> list[Waiting]:
    """Return ranks that wait in a send or receive, whose other end is named by the operation."""
    found = []
    for rank, evidence in sorted(ranks.items()):
        call = next((call for call in evidence.collectives if call.p2p and not call.done), None)
        match = None if call is None else _PEER.search(call.operation)
        if call is not None and match is not None:
            ends = {int(match[1]), int(match[2])}
            members = next((group.ranks for group in evidence.groups if group.group == call.group), ())
            on = frozenset(members[end] for end in ends if end < len(members)) - {rank}
            if on:
                found.append(Waiting(rank, on, call))
    return found


def signature(call: Collective) -> tuple[str, str, int | None]:
    """Return what must be the same on all ranks."""
    operation = name(call)
    if not _SAME_SIZE.search(operation):
        return operation, "", None
    return operation, call.types, elements(call)


def name(call: Collective) -> str:
    """Return `all_reduce` of `gloo:all_reduce`."""
    return call.operation.rpartition(":")[2]


def elements(call: Collective) -> int | None:
    """Return the number of elements of a collective's input tensors; None if there are none, as of a barrier,
    or their sizes are not known.
    """
    try:
        # another node's text may be of any length, and its numbers of any size
        shapes = json.loads(call.shapes[:TEXT_LIMIT])
        counts = [math.prod(int(length) for length in shape) for shape in shapes]
    except (ValueError, TypeError, RecursionError, OverflowError):
        return None
    count = sum(counts)
    return count if counts and 0 <= count < _MOST_ELEMENTS else None
