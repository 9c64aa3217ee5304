"""Placement after the permanent loss of a rank or node: which places of a plan take part. Pure.

Standard library only, Python 3.10: decided on the nodes.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from torchdeck.contract.plan.launch_plan import Batch, LaunchPlan, NodePlan, RankPlacement, SmallerSize
from torchdeck.contract.plan.slots import escape


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


# Plan of an attempt without some ranks of the full plan, or with spare nodes in it. Pure.
#
# Standard library only, Python 3.10: made on the nodes, with the laptop closed, from decisions made before
# the start. Except for which devices are left out, it is the plan that `make_plan` makes for so many ranks.

LOOPBACK = "127.0.0.1"
WITHIN_ONE_MACHINE = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
"""Ranks that are all on one node listen where no other machine can connect."""
_RECIPE = "TORCHDECK_RECIPE"


def smaller_plan(plan: LaunchPlan, roster: Roster) -> LaunchPlan:
    """Return the plan for the places of `roster`.

    Args:
        plan: of full size, its slots empty or filled.
        roster: as `Elastic.of_plan(plan).without(...)` gives it.

    Raises:
        ValueError: the plan has nothing for so many ranks.
    """
    if (roster.nodes, roster.world_size) == (tuple(node.name for node in plan.nodes), plan.world_size):
        return dataclasses.replace(plan, smaller=(), spares=(), spare_ranks=(), absent=())
    size = _size(plan, roster)
    nodes = tuple(_node(plan, size, roster, rank) for rank in range(size.nodes))
    return dataclasses.replace(
        plan,
        world_size=size.world_size,
        ranks=_ranks(plan, roster),
        nodes=nodes,
        batch=size.batch,
        warnings=size.warnings,
        prediction=size.prediction,
        smaller=(),
        spares=(),
        spare_ranks=(),
        absent=(),
    )


def resized_settings(text: str, batch: Batch, shard: int) -> str:
    """Return settings of a recipe run, the JSON in TORCHDECK_RECIPE, with the arithmetic of another size."""
    value: dict[str, Any] = json.loads(text)
    value["training"].update(accumulation=batch.accumulation, scaled_lr=batch.scaled_lr)
    value["distributed"]["hsdp"]["shard"] = shard
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _size(plan: LaunchPlan, roster: Roster) -> SmallerSize:
    nproc = len(roster.local_ranks[0]) if roster.nodes else 0
    if roster.world_size == plan.world_size:  # another node has the placement of one
        return SmallerSize(len(roster.nodes), nproc, plan.batch, 0, {}, plan.warnings, plan.prediction)
    for size in plan.smaller:
        if (size.nodes, size.nproc) == (len(roster.nodes), nproc):
            return size
    raise ValueError(f"the plan has nothing for {nproc} ranks on each of {len(roster.nodes)} nodes")


def _node(plan: LaunchPlan, size: SmallerSize, roster: Roster, node_rank: int) -> NodePlan:
    node = plan.node(roster.nodes[node_rank])
    devices = tuple(node.devices[local] for local in roster.local_ranks[node_rank]) if node.devices else ()
    env = {**node.env, "CUDA_VISIBLE_DEVICES": escape(",".join(devices))}
    if size.nodes == 1:
        env.pop("TORCHDECK_NODE", None)  # as if there had never been another node
        env |= WITHIN_ONE_MACHINE
    if node.name in size.threads:
        env["OMP_NUM_THREADS"] = str(size.threads[node.name])
    if size.batch is not None and size.world_size < plan.world_size and _RECIPE in env:
        env[_RECIPE] = resized_settings(env[_RECIPE], size.batch, size.shard)
    return dataclasses.replace(
        node,
        node_rank=node_rank,
        nproc=size.nproc,
        devices=devices,
        torchrun=_torchrun(node, size, plan.node(roster.nodes[0]), node_rank),
        env=env,
    )


def _torchrun(node: NodePlan, size: SmallerSize, first: NodePlan, node_rank: int) -> tuple[str, ...]:
    """Return the node's torchrun with the flags that depend on the roster."""
    alone = size.nodes == 1
    address = escape(LOOPBACK if alone else first.address)
    now = dict(itertools.pairwise(node.torchrun))
    least, _, _ = now["--nnodes"].rpartition(":")  # c10d's least:most
    flags = {
        "--nnodes": f"{least}:{size.nodes}" if least and int(least) < size.nodes else str(size.nodes),
        "--nproc-per-node": str(size.nproc),
        "--node-rank": str(node_rank),
        "--master-addr": address,
        "--rdzv-endpoint": f"{address}:{now.get('--rdzv-endpoint', '').rpartition(':')[2]}",
        "--rdzv-conf": f"is_host={int(node_rank == 0)}",
        "--local-addr": escape(LOOPBACK if alone else node.address),
    }
    argv = list(node.torchrun)
    for at, word in enumerate(argv[:-1]):
        if word in flags:
            argv[at + 1] = flags[word]
    return tuple(argv)


def _ranks(plan: LaunchPlan, roster: Roster) -> tuple[RankPlacement, ...]:
    placed = (*plan.ranks, *plan.spare_ranks)
    devices = {(rank.node, rank.local_rank): rank.device for rank in placed}
    placements: list[RankPlacement] = []
    for node_rank, (node, locals_) in enumerate(zip(roster.nodes, roster.local_ranks, strict=True)):
        for local_rank, place in enumerate(locals_):
            device = devices[(node, place)]
            placements.append(RankPlacement(len(placements), node, node_rank, local_rank, device))
    return tuple(placements)
