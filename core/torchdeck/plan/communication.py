"""Communication between ranks in one optimizer step, and its duration at the speed of the links.

Collectives are counted as ring algorithms, with N ranks and B bytes of the whole tensor: an all-gather and a
reduce-scatter make each rank send (N - 1)/N · B, an all-reduce twice that (Patarasuk and Yuan, "Bandwidth
optimal all-reduce algorithms for clusters of workstations", 2009). A ring goes through its ranks in order, so
a rank sends inside its node unless the next one is on another.

Not counted: data that is small compared with weights and gradients (losses, norms, buffers, DeepSpeed's small
parameters that stay whole), evaluation, checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from torchdeck.config.machines.cluster import Cluster
from torchdeck.config.values.gpu_models import gpu_model
from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.plan.memory.comm_hooks import sent_bytes
from torchdeck.plan.memory.sharding import unit_sizes
from torchdeck.plan.memory.spec import FULLY_SHARDED, PRECISION_SIZES, StrategySpec
from torchdeck.plan.placement import NodeShare

Integers = npt.NDArray[np.int64]
Ring = Literal["shard", "replicate"]


@dataclass(frozen=True)
class Links:
    """Speeds in one direction, in bytes per second; None if unknown."""

    intra_node: float | None = None
    """From one device to others of its node."""
    inter_node: float | None = None
    """From one node to others, over all its network cards together."""


@dataclass(frozen=True)
class Collective:
    """One kind of exchange in a step."""

    name: str
    """`all-gather`, `reduce-scatter` or `all-reduce`."""
    what: str
    """`weights` or `gradients`."""
    ring: Ring
    """Among ranks that shard one copy of the model, or among those that hold the same shard of each copy."""
    passes: int
    """Number of passes per step for every unit."""
    sent: int
    """Bytes each rank sends per step, all passes together."""


@dataclass(frozen=True)
class Communication:
    """Exchanges of one step on certain nodes."""

    collectives: tuple[Collective, ...]
    inside: Integers
    """Bytes each rank sends to ranks of its own node per step, shape (world_size,)."""
    between: Integers
    """Bytes each rank sends to other nodes per step, shape (world_size,)."""
    seconds: float | None
    """Minimum time the links are busy if nothing overlaps with computing: the slowest link of each exchange,
    one exchange after the other, without latency. None if a relevant speed is unknown.
    """

    @cached_property
    def sent(self) -> int:
        """Bytes each rank sends per step; the same for all."""
        return sum(collective.sent for collective in self.collectives)


def communication(
    profile: ModelProfile, spec: StrategySpec, shares: Sequence[NodeShare], links: Links
) -> Communication:
    """Return the communication of one optimizer step of `profile`.

    Args:
        profile: the model.
        spec: how the run divides it; its world size is that of `shares`.
        shares: the ranks of every node, in order of node rank.
        links: link speeds of nodes and devices.

    Raises:
        ValueError: `spec` and `shares` have different numbers of ranks.
    """
    homes = np.repeat(np.arange(len(shares)), [share.nproc for share in shares])
    if len(homes) != spec.world_size:
        raise ValueError(f"{len(homes)} ranks are placed, and the strategy is for {spec.world_size}")
    collectives = tuple(found for found in collectives_of(profile, spec) if found.sent)
    inside = np.zeros(len(homes), dtype=np.int64)
    between = np.zeros(len(homes), dtype=np.int64)
    seconds: list[float | None] = []
    for collective in collectives:
        leaves = homes[_following(collective.ring, spec)] != homes
        inside += np.where(leaves, 0, collective.sent)
        between += np.where(leaves, collective.sent, 0)
        seconds.append(_seconds(collective.sent, homes, leaves, links))
    known = [value for value in seconds if value is not None]
    return Communication(collectives, inside, between, sum(known) if len(known) == len(seconds) else None)


def links_from(cluster: Cluster, shares: Sequence[NodeShare]) -> Links:
    """Return speeds from [cluster]; inside nodes the default is NVLink's published one, if every GPU has
    it.
    """
    names = {device.name for share in shares for device in share.devices}
    nvlink = [None if model is None else model.link_bytes for model in map(gpu_model, names)]
    fast = [speed for speed in nvlink if speed is not None]
    published = min(fast) if fast and len(fast) == len(nvlink) else None
    return Links(cluster.intra_node or published, cluster.inter_node)


def collectives_of(profile: ModelProfile, spec: StrategySpec) -> list[Collective]:
    """Return the exchanges of one step; a single rank sends nothing."""
    if spec.kind == "single":
        return []
    if spec.kind == "ddp":
        gradients = sum(sent_bytes(tensor, spec) for tensor in profile.parameters if tensor.trainable)
        return [_all_reduce(gradients, spec.world_size)]
    return _fully_sharded(profile, spec) if spec.kind in FULLY_SHARDED else _zero(profile, spec)


def _fully_sharded(profile: ModelProfile, spec: StrategySpec) -> list[Collective]:
    """Return the exchanges of FSDP2 on a grid: gathers in every microbatch's passes, gradients reduced in the
    last one's backward.

    Weights are gathered again for backward unless they stayed; after backward they are freed in any case.
    """
    sizes = unit_sizes(profile, spec)
    weights, gradients = sum(unit.gathered for unit in sizes), sum(unit.scattered for unit in sizes)
    gathers = spec.accumulation * (2 if spec.reshard_after_forward else 1)
    return [
        _half_ring("all-gather", "weights", weights, gathers, spec.shard),
        _half_ring("reduce-scatter", "gradients", gradients, 1, spec.shard),
        _all_reduce(sum(unit.reduced for unit in sizes), spec.replicas),
    ]


def _zero(profile: ModelProfile, spec: StrategySpec) -> list[Collective]:
    """Return the exchanges of DeepSpeed: weights and gradients in the engine's precision (Rajbhandari et al.,
    "ZeRO", 2020, section 7).

    Stage 1 reduces once per step; 2 and 3 keep only their partition of a gradient, so they reduce each
    microbatch's. Stage 3 gathers weights for each forward and each backward; 1 and 2 once, after the
    optimizer's step.
    """
    size = PRECISION_SIZES[spec.engine_precision]
    weights = size * sum(tensor.numel for tensor in profile.parameters)
    gradients = size * sum(tensor.numel for tensor in profile.parameters if tensor.trainable)
    ranks, reductions = spec.world_size, 1 if spec.kind == "zero1" else spec.accumulation
    if spec.kind == "zero3":
        gather = _half_ring("all-gather", "weights", weights, 2 * spec.accumulation, ranks)
    else:
        # weights that the optimizer changed
        gather = _half_ring("all-gather", "weights", gradients, 1, ranks)
    return [gather, _half_ring("reduce-scatter", "gradients", gradients, reductions, ranks)]


def _half_ring(name: str, what: str, size: int, passes: int, ranks: int) -> Collective:
    return Collective(name, what, "shard", passes, passes * _part(ranks - 1, ranks, size))


def _all_reduce(size: int, ranks: int) -> Collective:
    return Collective("all-reduce", "gradients", "replicate", 1, _part(2 * (ranks - 1), ranks, size))


def _part(times: int, ranks: int, size: int) -> int:
    """Return `times`/`ranks` of `size` bytes, rounded up."""
    return -(-times * size // ranks)


def _following(ring: Ring, spec: StrategySpec) -> Integers:
    """Return the rank that each rank sends to."""
    ranks = np.arange(spec.world_size)
    if ring == "replicate":
        return (ranks + spec.shard) % spec.world_size
    place = ranks % spec.shard
    return ranks - place + (place + 1) % spec.shard


def _seconds(sent: int, homes: Integers, leaves: npt.NDArray[np.bool_], links: Links) -> float | None:
    """Return how long the slowest link of one exchange is busy."""
    slowest = 0.0
    if not leaves.all():
        if links.intra_node is None:
            return None
        slowest = sent / links.intra_node
    if leaves.any():
        if links.inter_node is None:
            return None
        busiest = int(np.bincount(homes[leaves]).max())  # ranks of one node that send over its network cards
        slowest = max(slowest, busiest * sent / links.inter_node)
    return slowest


# Summary of the traffic of one step.


@dataclass(frozen=True)
class Traffic:
    """Traffic of one optimizer step, in bytes."""

    collectives: tuple[Collective, ...]
    sent: int
    """Bytes sent by each rank."""
    between: int
    """Bytes from node to node, by all ranks together."""
    crossing: int
    """Number of ranks that send to other nodes."""
    seconds: float | None
    """Minimum time that links are busy if nothing overlaps with computing; None: a speed is unknown."""


def make_traffic(communication: Communication) -> Traffic:
    """Return the sums of `communication`."""
    return Traffic(
        collectives=communication.collectives,
        sent=communication.sent,
        between=int(communication.between.sum()),
        crossing=int((communication.between > 0).sum()),
        seconds=communication.seconds,
    )
