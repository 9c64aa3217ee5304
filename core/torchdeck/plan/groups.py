"""Layout of hybrid sharding (hsdp) on the nodes: which ranks shard the weights, which replicate each other.

Ranks in order form a grid of replicas × shard, as in torch's `init_device_mesh`. Consecutive ranks shard one
copy of the weights, and ranks at the same position of every group hold the same shard.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from torchdeck.plan.check import PlanError, problem
from torchdeck.plan.placement import NodeShare


@dataclass(frozen=True)
class ShardGroups:
    """The grid of ranks."""

    world_size: int
    shard: int
    """Ranks per group, which together hold one copy of the weights."""
    crossing: int
    """Number of groups that span more than one node."""
    warnings: tuple[str, ...] = ()

    @property
    def replicas(self) -> int:
        """Number of groups: copies of the weights."""
        return self.world_size // self.shard


def shard_groups(shares: Sequence[NodeShare], asked: int | None) -> ShardGroups:
    """Return the groups of a run.

    Args:
        shares: every node's share, in order of node rank.
        asked: ranks per group, `distributed.hsdp.shard`; None: the ranks of one node if all have the same
            number, else the greatest common divisor of every node's.

    Raises:
        PlanError: the groups would not divide evenly; it names the sizes that do.
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
    """Return every divisor of `number`, in order."""
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
