"""Placement of ranks on nodes, and the device of each rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torchdeck.config.chosen_nodes import most_taken, wanted
from torchdeck.config.distributed import Distributed
from torchdeck.config.problems import Problem
from torchdeck.config.values.numbers import count_range
from torchdeck.contract.inventory import Device, Inventory, NodeInfo
from torchdeck.contract.plan.launch_plan import LaunchPlan, RankPlacement
from torchdeck.plan.check import problem


@dataclass(frozen=True)
class NodeShare:
    """One node's share of the job."""

    node: NodeInfo
    node_rank: int
    nproc: int
    devices: tuple[Device, ...]
    """GPUs of its ranks, in order of local rank; empty if ranks run on the CPU."""


def place(
    distributed: Distributed, inventory: Inventory, environ: Mapping[str, str]
) -> tuple[list[NodeShare], list[Problem]]:
    """Return every node's share, in the order of the config with spares last, and the config's problems.

    Args:
        distributed: nodes, devices, and ranks per node; for a range, the largest number.
        inventory: hardware of those nodes.
        environ: its CUDA_VISIBLE_DEVICES narrows `devices = "auto"` on probed machines.
    """
    names = _names(distributed, inventory)
    problems = [
        problem(
            "distributed.nodes",
            f"unknown node {name!r}",
            "one of the machines known here: " + (", ".join(node.name for node in inventory) or "localhost"),
        )
        for name in names
        if inventory.find(name) is None
    ]
    problems += _too_few(distributed, names)
    found = [node for name in names if (node := inventory.find(name)) is not None]
    if distributed.rendezvous.backend == "c10d":
        found.sort(key=lambda node: node.address)  # as strings: torchrun numbers them in this order
    wanted = {node.name: _devices(node, distributed, environ, problems) for node in found}
    if distributed.devices == "auto" and len({bool(devices) for devices in wanted.values()}) > 1:
        bare = ", ".join(name for name, devices in wanted.items() if not devices)
        problems.append(
            problem(
                "distributed.devices",
                f"some nodes have GPUs, but {bare} has none",
                'identical nodes, or devices = "cpu"',
            )
        )
    shares = []
    for node_rank, node in enumerate(found):
        devices = wanted[node.name]
        nproc = _nproc(node, distributed, devices, problems)
        shares.append(NodeShare(node, node_rank, nproc, devices[:nproc]))
    return shares, problems


def _names(distributed: Distributed, inventory: Inventory) -> list[str]:
    """Return the named nodes; for a range, as many of the known machines as it takes at most."""
    if isinstance(distributed.nodes, str):
        return [node.name for node in inventory][: most_taken(distributed)]
    return distributed.nodes


def _too_few(distributed: Distributed, names: Sequence[str]) -> Iterator[Problem]:
    """Yield a problem if there are too few nodes besides the spares, or fewer than a range's minimum."""
    least, most = wanted(distributed, len(names))
    if most < 1:
        what = f"{distributed.spare} of {len(names)} node{'' if len(names) == 1 else 's'} would be spare"
        yield problem(
            "distributed.spare",
            f"{what}: no node is left for ranks",
            f"at most {len(names) - 1}, or more nodes",
        )
    elif most < least:
        known = "1 is" if len(names) == 1 else f"{len(names)} are"
        wrong = f"at least {least} nodes are requested, but only {known} known"
        right = (
            f'"{len(names)}:{least}", or more machines (`torchdeck nodes add` adds one to the node inventory)'
        )
        yield problem("distributed.nodes", wrong, right)


def rank_placements(shares: Sequence[NodeShare]) -> tuple[RankPlacement, ...]:
    """Return global ranks as torchrun's static rendezvous assigns them: cumulative over the nodes in
    order.
    """
    placements: list[RankPlacement] = []
    for share in shares:
        name, node_rank = share.node.name, share.node_rank
        devices = [f"cuda:{device.index}" for device in share.devices] or ["cpu"] * share.nproc
        for local_rank in range(share.nproc):
            placements.append(
                RankPlacement(len(placements), name, node_rank, local_rank, devices[local_rank])
            )
    return tuple(placements)


def visible(devices: tuple[Device, ...], variable: str | None) -> tuple[Device, ...]:
    """Return the devices that CUDA_VISIBLE_DEVICES leaves, in its order; all devices if it is not set.

    Parsed as CUDA does: a list of indices or UUID prefixes, cut at the first entry that names no device.
    """
    if variable is None:
        return devices
    left: list[Device] = []
    for entry in variable.split(","):
        match = _named(devices, entry.strip())
        if match is None or match in left:
            break
        left.append(match)
    return tuple(left)


def _named(devices: tuple[Device, ...], entry: str) -> Device | None:
    if entry.isdecimal():
        return next((device for device in devices if device.index == int(entry)), None)
    return next((device for device in devices if entry and device.uuid.startswith(entry)), None)


def _devices(
    node: NodeInfo, distributed: Distributed, environ: Mapping[str, str], problems: list[Problem]
) -> tuple[Device, ...]:
    """Return the GPUs that ranks on `node` may use, in order."""
    asked = distributed.devices
    if asked == "cpu":
        return ()
    if asked == "auto":
        variable = None if node.described or node.remote else environ.get("CUDA_VISIBLE_DEVICES")
        return visible(node.devices, variable)
    chosen: list[Device] = []
    for position, entry in enumerate(asked):
        path = f"distributed.devices[{position}]"
        device = _named(node.devices, str(entry))
        if device is None:
            problems.append(problem(path, f"{node.name} has no GPU {entry}", _have(node)))
        elif device in chosen:
            problems.append(problem(path, f"GPU {entry} of {node.name} is listed twice", "each GPU once"))
        else:
            chosen.append(device)
    return tuple(chosen)


def _have(node: NodeInfo) -> str:
    if not node.devices:
        return f'devices = "cpu": {node.name} has no GPUs'
    return f"one of {', '.join(str(device.index) for device in node.devices)}"


def _nproc(
    node: NodeInfo, distributed: Distributed, devices: tuple[Device, ...], problems: list[Problem]
) -> int:
    if distributed.nproc is None:
        nproc = 1 if distributed.strategy == "single" else max(1, len(devices))
    else:
        nproc = count_range(distributed.nproc).most
    if node.max_ranks is not None:
        nproc = min(nproc, node.max_ranks)
    if devices and nproc > len(devices):
        have = f"{len(devices)} GPU{'s' if len(devices) > 1 else ''}"
        hidden = distributed.devices == "auto" and len(devices) < len(node.devices)
        why = f" (CUDA_VISIBLE_DEVICES selects these of {len(node.devices)})" if hidden else ""
        problems.append(
            problem(
                "distributed.nproc",
                f"{nproc} ranks do not fit {node.name}: it has {have} for them{why}",
                f'at most {len(devices)}, or devices = "cpu"',
            )
        )
    return nproc


def lowered(distributed: Distributed, shares: Sequence[NodeShare]) -> list[str]:
    """Return a sentence per rank count if the node inventory allows fewer ranks than the run asks for."""
    if distributed.nproc is None:
        return []
    asked = count_range(distributed.nproc).most
    limited: dict[int, list[str]] = {}
    for share in shares:
        if share.node.max_ranks is not None and share.nproc < asked:
            limited.setdefault(share.nproc, []).append(share.node.name)
    return [
        f"{_first(names)} run{'s' if len(names) == 1 else ''} {nproc} of the {asked} ranks that "
        "distributed.nproc requests, the limit of max_ranks in the node inventory"
        for nproc, names in limited.items()
    ]


def weaker(shares: Sequence[NodeShare], spares: Sequence[NodeShare]) -> list[str]:
    """Return a sentence for each spare whose devices have less memory than those they may replace."""
    needed = min((device.memory_bytes for share in shares for device in share.devices), default=0)
    names = [
        spare.node.name for spare in spares if any(device.memory_bytes < needed for device in spare.devices)
    ]
    if not names:
        return []
    have = "has" if len(names) == 1 else "have"
    said = f"{_first(names)} {have} GPUs with less memory than those of the nodes that it may replace"
    return [f"{said}: the memory prediction is for these"]


def crowding(shares: Sequence[NodeShare]) -> list[str]:
    """Return a sentence per rank count if ranks share cores."""
    crowded: dict[tuple[int, int], list[str]] = {}
    for share in shares:
        if share.nproc > share.node.cpu_count:
            crowded.setdefault((share.nproc, share.node.cpu_count), []).append(share.node.name)
    return [
        f"{nproc} ranks share {cores} core{'' if cores == 1 else 's'} on {_first(names)}: "
        "each gets one thread"
        for (nproc, cores), names in crowded.items()
    ]


def _first(names: Sequence[str]) -> str:
    """Return `gpu00`, or `gpu00 and 15 more nodes`."""
    more = len(names) - 1
    return names[0] if not more else f"{names[0]} and {more:,} more node{'' if more == 1 else 's'}"


def shares_of(plan: LaunchPlan, inventory: Inventory) -> list[NodeShare]:
    """Return what `place` decided when `plan` was made for `inventory`.

    Raises:
        ValueError: the plan was made for other machines.
    """
    machines = {node.name: node for node in inventory}
    shares = []
    for node in plan.nodes:
        machine = machines.get(node.name)
        devices = {} if machine is None else {device.key: device for device in machine.devices}
        if machine is None or not set(node.devices) <= set(devices):
            raise ValueError(f"the plan was made for other machines: {node.name} is missing or has changed")
        chosen = tuple(devices[key] for key in node.devices)
        shares.append(NodeShare(machine, node.node_rank, node.nproc, chosen))
    return shares
