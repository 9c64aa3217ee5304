"""Node of each rank, for runs on several nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import RunLayout

_MOST_RANKS = 1 << 17


class RankNodes:
    """Nodes from the plan of the newest attempt, read once; for the reader thread."""

    def __init__(self, layout: RunLayout) -> None:
        self._layout = layout
        self._read: int | None = None
        self._nodes: Mapping[int, str] = {}
        self._names: tuple[str, ...] | None = None
        self._by_attempt: dict[int, list[str]] = {}

    def names(self) -> tuple[str, ...]:
        """Return the run's nodes in the order of their ranks; none for a run on one node."""
        if self._names is None:
            document = read_json(self._layout.plan)
            if not isinstance(document, dict):
                return ()  # the next poll may find one
            self._names = tuple(dict.fromkeys(nodes_of(document).values()))
        return self._names

    def has(self, node: str, attempt: int, rank: int) -> bool:
        """Return whether a rank of an attempt is on `node`: attempts may have fewer nodes than the run."""
        known = self._by_attempt.get(attempt)
        if known is None:
            document = read_json(self._layout.attempt(attempt).plan)
            known = _all_nodes(document)
            if not known:
                return False  # not known yet
            self._by_attempt[attempt] = known
        return rank < len(known) and known[rank] == node

    def now(self) -> Mapping[int, str]:
        """Return the node of each rank; empty for a run on one node or if no plan can be read."""
        newest = max(self._layout.attempt_numbers(), default=0)
        if newest != self._read:
            plan = read_json(self._layout.attempt(newest).plan) if newest else None
            document = plan if isinstance(plan, dict) else read_json(self._layout.plan)
            self._nodes = nodes_of(document)
            # without a plan yet, the next poll may find one
            self._read = newest if isinstance(document, dict) else None
        return self._nodes


def nodes_of(plan: Any) -> Mapping[int, str]:
    """Return the node of each rank from a plan document; empty if it has only one."""
    found = _all_nodes(plan)
    return dict(enumerate(found)) if len(set(found)) > 1 else {}


def _all_nodes(plan: Any) -> list[str]:
    """Return the node of each rank, in rank order."""
    nodes = plan.get("nodes") if isinstance(plan, dict) else None
    found: list[str] = []
    for node in nodes if isinstance(nodes, list) else ():
        if isinstance(node, dict) and isinstance(node.get("nproc"), int):
            found += [str(node.get("name"))] * min(node["nproc"], _MOST_RANKS - len(found))
    return found


def rank_words(rank: int, nodes: Mapping[int, str]) -> str:
    """Return `rank 3`, or `rank 3 on b` if there are several nodes."""
    return f"rank {rank} on {nodes[rank]}" if rank in nodes else f"rank {rank}"
