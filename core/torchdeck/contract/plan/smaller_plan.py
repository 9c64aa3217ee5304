"""Plan of an attempt without some ranks of the full plan, or with spare nodes in it. Pure.

Standard library only, Python 3.10: made on the nodes, with the laptop closed, from decisions made before the
start. Except for which devices are left out, it is the plan that `make_plan` makes for so many ranks.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Any

from torchdeck.contract.plan.elastic import Roster
from torchdeck.contract.plan.launch_plan import Batch, LaunchPlan, NodePlan, RankPlacement, SmallerSize
from torchdeck.contract.plan.slots import escape

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
