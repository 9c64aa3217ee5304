"""Who goes on when a rank or a node is lost for good: which places of a plan take part. Pure.

Standard library only, Python 3.10: decided on the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from torchdeck.plan.launch_plan import LaunchPlan


class Place(NamedTuple):
    """Where a rank runs, by the plan of full size; with `local_rank` None the whole node."""

    node: str
    local_rank: int | None

    def __str__(self) -> str:
        return (
            f"node {self.node}" if self.local_rank is None else f"local rank {self.local_rank} on {self.node}"
        )


class Roster(NamedTuple):
    """The places that take part, in order of their ranks."""

    nodes: tuple[str, ...]
    local_ranks: tuple[tuple[int, ...], ...]
    """Of each node, by the plan of full size; as many on every node unless it is the full one."""

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
        """The local ranks of the full plan that take part on a node; none where it does not."""
        return dict(zip(self.nodes, self.local_ranks, strict=True)).get(node, ())


class Elastic:
    """What a plan allows when places are lost.

    Attributes:
        full: everybody.
        shrinks: there is a smaller size.
    """

    def __init__(self, nprocs: Sequence[tuple[str, int]], sizes: Iterable[tuple[int, int]] = ()) -> None:
        """Allow `sizes`, each (nodes, ranks on each node), beside the full one of `nprocs` by node."""
        self.full = Roster(
            tuple(name for name, _ in nprocs), tuple(tuple(range(nproc)) for _, nproc in nprocs)
        )
        self._sizes = {(len(nprocs), min(nproc for _, nproc in nprocs)), *sizes}
        self.shrinks = len(self._sizes) > 1

    @classmethod
    def of_plan(cls, plan: LaunchPlan) -> Elastic:
        """What stands in a plan."""
        nprocs = [(node.name, node.nproc) for node in plan.nodes]
        return cls(nprocs, [(size.nodes, size.nproc) for size in plan.smaller])

    def without(self, left_out: Sequence[Place]) -> Roster | None:
        """The largest gang that does without `left_out`; None where the range ends before.

        Every node gets as many ranks: where one has lost a place, the others leave out their last.
        """
        if not left_out:
            return self.full
        if not self.shrinks:
            return None
        remaining = {
            node: [local for local in locals_ if Place(node, local) not in left_out]
            for node, locals_ in zip(self.full.nodes, self.full.local_ranks, strict=True)
            if Place(node, None) not in left_out
        }
        for nodes, nproc in sorted(self._sizes, key=lambda size: (size[0] * size[1], size[0]), reverse=True):
            able = [node for node, locals_ in remaining.items() if len(locals_) >= nproc][:nodes]
            if len(able) == nodes:
                return Roster(tuple(able), tuple(tuple(remaining[node][:nproc]) for node in able))
        return None
