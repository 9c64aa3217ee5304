"""Which rank sits where: nodes, devices, and the groups of ranks that hold a whole model between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchdeck.contract.inventory import Device
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.plan.placement import NodeShare

if TYPE_CHECKING:
    # numpy comes with it, and preflight reads boards without
    from torchdeck.plan.memory.spec import StrategySpec


@dataclass(frozen=True)
class RankGridNode:
    """One node and its ranks, which follow each other."""

    name: str
    address: str
    node_rank: int
    first_rank: int
    devices: tuple[str, ...]
    """Of its ranks, in order: `cuda:0`, or `cpu`."""
    kind: str
    """What the devices are, as their driver names them; `CPU` where ranks compute on it."""

    @property
    def nproc(self) -> int:
        """Ranks on the node."""
        return len(self.devices)

    @property
    def last_rank(self) -> int:
        """The last of them."""
        return self.first_rank + self.nproc - 1

    def like(self, other: RankGridNode) -> bool:
        """Whether the two differ in name, address and ranks alone."""
        return (self.devices, self.kind) == (other.devices, other.kind)


@dataclass(frozen=True)
class RankGrid:
    """All nodes, in order of their ranks."""

    nodes: tuple[RankGridNode, ...]
    shard: int
    """Ranks that divide one model's state among them: 1 where each holds all of it."""
    sharded: str = "weights are"
    """What of it, with its verb."""

    @property
    def world_size(self) -> int:
        """Ranks in all."""
        return sum(node.nproc for node in self.nodes)

    @property
    def replicas(self) -> int:
        """Groups of `shard` ranks."""
        return self.world_size // self.shard

    def shard_group(self, rank: int) -> int:
        """The group that `rank` is in; ranks of a group follow each other."""
        return rank // self.shard

    def alike(self) -> tuple[tuple[RankGridNode, RankGridNode], ...]:
        """First and last of each stretch of nodes that are alike."""
        stretches: list[list[RankGridNode]] = []
        for node in self.nodes:
            if stretches and stretches[-1][-1].like(node):
                stretches[-1].append(node)
            else:
                stretches.append([node])
        return tuple((stretch[0], stretch[-1]) for stretch in stretches)


def make_rank_grid(plan: LaunchPlan, shares: Sequence[NodeShare], spec: StrategySpec | None) -> RankGrid:
    """The board of `plan`; `shares` say what its devices are, `spec` how they divide the model."""
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
