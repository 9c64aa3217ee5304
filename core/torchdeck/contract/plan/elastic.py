"""Placement after the permanent loss of a rank or node: which places of a plan take part. Pure.

Standard library only, Python 3.10: decided on the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from torchdeck.contract.plan.launch_plan import LaunchPlan


class Place(NamedTuple):
    """Placement of a rank, by the plan of full size; the whole node if `local_rank` is None."""

    node: str
    local_rank: int | None

    def __str__(self) -> str:
        return (
            f"node {self.node}" if self.local_rank is None else f"local rank {self.local_rank} on {self.node}"
        )


class Roster(NamedTuple):
    """Placements that take part, in order of their ranks."""

    nodes: tuple[str, ...]
    local_ranks: tuple[tuple[int, ...], ...]
    """Local ranks of each node, by the plan of full size; as many on every node unless it is the full one."""

    @property
    def world_size(self) -> int:
        return sum(map(len, self.local_ranks))

    @property
    def places(self) -> tuple[Place, ...]:
        """By rank."""
        return tuple(
            Place(node, local)
            for node, locals_ in zip(self.nodes, self.local_ranks, strict=True)
            for local in locals_
        )

    def of(self, node: str) -> tuple[int, ...]:
        """Return the local ranks of the full plan that take part on a node; none if it does not."""
        return dict(zip(self.nodes, self.local_ranks, strict=True)).get(node, ())


class Elastic:
    """Options of a plan if places are lost.

    Attributes:
        full: all places.
        known: all nodes, spares among them.
        yields: the run may continue without some place: with a spare in its stead, or at a smaller size.
        shrinks: there is a smaller size.
    """

    def __init__(
        self,
        nprocs: Sequence[tuple[str, int]],
        sizes: Iterable[tuple[int, int]] = (),
        spares: Sequence[tuple[str, int]] = (),
    ) -> None:
        """Allow `sizes`, each (nodes, ranks on each node), besides the full one of `nprocs` by node.

        Args:
            nprocs: nodes, and ranks on each.
            sizes: smaller ones.
            spares: nodes that replace others, in this order, and the ranks that they can have.
        """
        self.full = Roster(
            tuple(name for name, _ in nprocs), tuple(tuple(range(nproc)) for _, nproc in nprocs)
        )
        self._sizes = {(len(nprocs), min(nproc for _, nproc in nprocs)), *sizes}
        self._spares = tuple(name for name, _ in spares)
        self._local_ranks = {
            **dict(zip(self.full.nodes, self.full.local_ranks, strict=True)),
            **{name: tuple(range(nproc)) for name, nproc in spares},
        }
        self.known = frozenset(self._local_ranks)
        self.shrinks = len(self._sizes) > 1
        self.yields = self.shrinks or bool(spares)

    @classmethod
    def of_plan(cls, plan: LaunchPlan) -> Elastic:
        """Return the options of a plan."""
        nprocs = [(node.name, node.nproc) for node in plan.nodes]
        spares = [(node.name, node.nproc) for node in plan.spares]
        return cls(nprocs, [(size.nodes, size.nproc) for size in plan.smaller], spares)

    def without(self, left_out: Sequence[Place]) -> Roster | None:
        """Return the largest gang without `left_out`; None if it would be below the range.

        Every node gets as many ranks: if one has lost a placement, the others leave out their last. A spare
        has the placement of the node that it replaces, and keeps it whatever is lost after.

        Args:
            left_out: in the order in which they were given up.
        """
        if not left_out:
            return self.full
        if not self.yields:
            return None
        remaining = {
            node: [local for local in locals_ if Place(node, local) not in left_out]
            for node, locals_ in self._local_ranks.items()
            if Place(node, None) not in left_out
        }
        for nodes, nproc in sorted(self._sizes, key=lambda size: (size[0] * size[1], size[0]), reverse=True):
            able = [node for node in self._seats(left_out, nproc) if len(remaining.get(node, ())) >= nproc]
            if len(able) >= nodes:
                able = able[:nodes]
                return Roster(tuple(able), tuple(tuple(remaining[node][:nproc]) for node in able))
        return None

    def _seats(self, left_out: Sequence[Place], nproc: int) -> list[str]:
        """Return the node for each place, at `nproc` ranks on each; a place without a spare keeps its
        node.
        """
        seats, free = list(self.full.nodes), list(self._spares)
        lost = dict.fromkeys(self._local_ranks, 0)
        for place in left_out:
            count = len(self._local_ranks.get(place.node, ()))
            lost[place.node] = count if place.local_rank is None else lost.get(place.node, 0) + 1
            if count - lost[place.node] >= nproc:
                continue
            if place.node in free:
                free.remove(place.node)
            elif place.node in seats and free:
                seats[seats.index(place.node)] = free.pop(0)
        return seats
