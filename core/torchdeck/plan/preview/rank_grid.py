"""Grid of ranks: nodes, devices, and the groups of ranks that together hold a whole model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchdeck.contract.inventory import Device
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.plan.placement import NodeShare

if TYPE_CHECKING:
    # imports numpy, and preflight reads grids without it
    from torchdeck.plan.memory.spec import StrategySpec


@dataclass(frozen=True)
class RankGridNode:
    """One node and its consecutive ranks."""

    name: str
    address: str
    node_rank: int
    first_rank: int
    devices: tuple[str, ...]
    """Devices of its ranks, in order: `cuda:0`, or `cpu`."""
    kind: str
    """Device model as the driver names it; `CPU` if ranks compute on it."""

    @property
    def nproc(self) -> int:
        """Number of ranks on the node."""
        return len(self.devices)

    @property
    def last_rank(self) -> int:
        """Last rank on the node."""
        return self.first_rank + self.nproc - 1

    def like(self, other: RankGridNode) -> bool:
        """Return whether the two differ only in name, address and ranks."""
        return (self.devices, self.kind) == (other.devices, other.kind)


@dataclass(frozen=True)
class RankGrid:
    """All nodes, ordered by their ranks."""

    nodes: tuple[RankGridNode, ...]
    shard: int
    """Ranks that share one model's state: 1 if each holds all of it."""
    sharded: str = "weights are"
    """The sharded state, as a phrase with its verb."""

    @property
    def world_size(self) -> int:
        """Total number of ranks."""
        return sum(node.nproc for node in self.nodes)

    @property
    def replicas(self) -> int:
        """Number of groups of `shard` ranks."""
        return self.world_size // self.shard

    def shard_group(self, rank: int) -> int:
        """Return the group of `rank`; ranks of a group are consecutive."""
        return rank // self.shard

    def alike(self) -> tuple[tuple[RankGridNode, RankGridNode], ...]:
        """First and last node of each stretch of identical nodes."""
        stretches: list[list[RankGridNode]] = []
        for node in self.nodes:
            if stretches and stretches[-1][-1].like(node):
                stretches[-1].append(node)
            else:
                stretches.append([node])
        return tuple((stretch[0], stretch[-1]) for stretch in stretches)


def make_rank_grid(plan: LaunchPlan, shares: Sequence[NodeShare], spec: StrategySpec | None) -> RankGrid:
    """Return the grid of `plan`; `shares` describe its devices, `spec` how they divide the model."""
    nodes = []
    first = 0
    for part, share in zip(plan.nodes, shares, strict=True):
        ranks = plan.ranks[first : first + part.nproc]
        devices = tuple(rank.device for rank in ranks)
        kind = _kind(share.devices) if share.devices else "CPU"
        nodes.append(RankGridNode(part.name, part.address, part.node_rank, first, devices, kind))
        first += part.nproc
    return RankGrid(tuple(nodes), 1) if spec is None else RankGrid(tuple(nodes), spec.shard, spec.sharded)


def _kind(devices: Sequence[Device]) -> str:
    return " and ".join(dict.fromkeys(device.name for device in devices if device.name))
