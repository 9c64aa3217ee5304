"""A node that does not answer any more, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.contract.plan.elastic import Roster


def not_answering(node: str, seconds: float, ranks: Sequence[int] = ()) -> str:
    """`node gpu3 has not answered for 41 s; its ranks 2 and 3 are gone`."""
    return f"node {node} has not answered for {seconds:.0f} s{_ranks_gone(ranks)}"


def started_again(node: str, ranks: Sequence[int] = ()) -> str:
    """Its ranks ended with the machine."""
    return f"node {node} lost power or was rebooted{_ranks_gone(ranks)}"


def ranks_on(roster: Roster, node: str) -> list[int]:
    """The ranks that a node has in a gang."""
    return [rank for rank, place in enumerate(roster.places) if place.node == node]


def _ranks_gone(ranks: Sequence[int]) -> str:
    if not ranks:
        return ""
    if len(ranks) == 1:
        return f"; its rank {ranks[0]} is gone"
    *first, last = map(str, ranks)
    return f"; its ranks {', '.join(first)} and {last} are gone"
