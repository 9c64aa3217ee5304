"""How hybrid sharding (hsdp) lies on the nodes: which ranks shard the weights, which replicate each other.

Ranks in order make a grid of replicas × shard, as torch's `init_device_mesh` lays it out: ranks that follow
each other shard one copy of the weights, ranks at the same place of every group hold the same part.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from torchdeck.plan.placement import NodeShare
from torchdeck.plan.problems import PlanError, problem


@dataclass(frozen=True)
class ShardGroups:
    """The grid of ranks."""

    world_size: int
    shard: int
    """Ranks of one group, which hold one copy of the weights together."""
    crossing: int
    """Groups that lie on more than one node."""
    warnings: tuple[str, ...] = ()

    @property
    def replicas(self) -> int:
        """Groups in all: copies of the weights."""
        return self.world_size // self.shard

    def shard_ranks(self, rank: int) -> range:
        """The group of `rank`, itself included: who gathers weights from each other."""
        first = rank - rank % self.shard
        return range(first, first + self.shard)

    def replica_ranks(self, rank: int) -> range:
        """Those that hold the same part as `rank`, itself included: who sums gradients with each other."""
        return range(rank % self.shard, self.world_size, self.shard)


def shard_groups(shares: Sequence[NodeShare], asked: int | None) -> ShardGroups:
    """The groups of a run.

    Args:
        shares: every node's part, in order of node rank.
        asked: ranks of a group, `distributed.hsdp.shard`; None: the ranks of one node where all have as many,
            else the most that divides every node's.

    Raises:
        PlanError: the groups would not come out even; it says which sizes do.
    """
    counts = [share.nproc for share in shares]
    world_size, inside = sum(counts), math.gcd(*counts)
    shard = inside if asked is None else asked
    if world_size % shard:
        raise PlanError(
            [
                problem(
                    "distributed.hsdp.shard",
                    f"{world_size} ranks cannot form groups of {shard}",
                    f"one of {', '.join(map(str, divisors(world_size)))}",
                )
            ]
        )
    if inside % shard == 0:
        return ShardGroups(world_size, shard, crossing=0)
    ends = list(accumulate(counts))
    crossing = [
        first
        for first in range(0, world_size, shard)
        if bisect_right(ends, first) != bisect_right(ends, first + shard - 1)
    ]
    warning = _warning(shares, ends, shard, crossing, inside)
    return ShardGroups(world_size, shard, len(crossing), (warning,))


def divisors(number: int) -> list[int]:
    """Every whole number that divides `number`, in order."""
    small = [count for count in range(1, math.isqrt(number) + 1) if number % count == 0]
    return sorted({*small, *(number // count for count in small)})


def _warning(
    shares: Sequence[NodeShare], ends: Sequence[int], shard: int, crossing: Sequence[int], inside: int
) -> str:
    first = crossing[0]
    last = first + shard - 1
    nodes = shares[bisect_right(ends, first)].node.name, shares[bisect_right(ends, last)].node.name
    return (
        f"{len(crossing)} of {ends[-1] // shard} groups that shard the weights lie on more than one node "
        f"(the first: ranks {first} to {last}, {nodes[0]} to {nodes[1]}) and gather them over the network in "
        f"every pass; distributed.hsdp.shard = {inside} keeps every group inside a node"
    )
