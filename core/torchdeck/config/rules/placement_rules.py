"""Contradictions about the placement of ranks: nodes, devices, and the machines that [cluster] describes."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.config.chosen_nodes import described_names, node_names
from torchdeck.config.keys import all_keys
from torchdeck.config.machines.cluster import ClusterNodes
from torchdeck.config.problems import shown
from torchdeck.config.rules.findings import Finding, Given, Rule
from torchdeck.config.spelling import nearest
from torchdeck.config.toml.document import KeyPath
from torchdeck.config.values.gpu_models import gpu_model, gpu_names
from torchdeck.config.values.node_names import NodeNameError, expand
from torchdeck.config.values.numbers import RangeError, count_range, parse_range
from torchdeck.contract.inventory import LOCALHOST

_STRATEGY: KeyPath = ("distributed", "strategy")
_NODES: KeyPath = ("distributed", "nodes")
_DEVICES: KeyPath = ("distributed", "devices")
_NPROC: KeyPath = ("distributed", "nproc")
_SPARE: KeyPath = ("distributed", "spare")
_RENDEZVOUS: KeyPath = ("distributed", "rendezvous", "backend")
_TRUSTED: KeyPath = ("launch", "trusted_network")
_CLUSTER: KeyPath = ("cluster", "nodes")


def single(given: Given) -> Iterator[Finding]:
    """DistributedStrategy single is one process."""
    distributed = given.config.distributed
    if distributed.strategy != "single":
        return
    for path, value in ((_NPROC, distributed.nproc), (_NODES, distributed.nodes)):
        if isinstance(value, str):
            wrong = 'a range cannot be used with strategy = "single", which is one process'
            yield Finding(path, wrong, 'one, or strategy = "ddp" or "fsdp"', (_STRATEGY,))
    counts = {
        "nproc": 1 if isinstance(distributed.nproc, str) else distributed.nproc or 1,
        "nodes": 1
        if isinstance(distributed.nodes, str)
        else len(node_names(given.config, named=given.written(_NODES))),
        "devices": len(distributed.devices) if isinstance(distributed.devices, list) else 1,
    }
    for name, count in counts.items():
        if count > 1:
            wrong = f'{count} {name} cannot be used with strategy = "single", which is one process'
            if name == "nproc":
                wrong = (
                    f'{count} ranks on a node cannot be used with strategy = "single", which is one process'
                )
            uses = (_STRATEGY, _CLUSTER) if name == "nodes" else (_STRATEGY,)
            yield Finding(("distributed", name), wrong, 'one, or strategy = "ddp" or "fsdp"', uses)


def ranges(given: Given) -> Iterator[Finding]:
    """A range has a minimum and a maximum, and the minimum is available."""
    distributed = given.config.distributed
    for path, value in ((_NPROC, distributed.nproc), (_NODES, distributed.nodes)):
        if not isinstance(value, str):
            continue
        try:
            found = parse_range(value)
        except RangeError as error:
            yield Finding(path, str(error), error.right)
            continue
        if path == _NODES:
            yield from _enough(given, found.least)


def _enough(given: Given, least: int) -> Iterator[Finding]:
    """Enough machines are described, if any are; those of the node inventory are counted when it is read."""
    there = len(described_names(given.config))
    if least <= there or not there:
        return
    right = f'"{there}:{least}", or more machines in [[cluster.nodes]]'
    wrong = f"at least {least} nodes are requested, but [cluster] describes {there}"
    yield Finding(_NODES, wrong, right, (_CLUSTER,))


def spares(given: Given) -> Iterator[Finding]:
    """Ranks keep their placement when a spare node replaces another one."""
    distributed = given.config.distributed
    if not distributed.spare:
        return
    if distributed.strategy == "single":
        wrong = 'spare nodes cannot be used with strategy = "single", which is one process'
        yield Finding(_SPARE, wrong, 'no spare, or strategy = "ddp" or "fsdp"', (_STRATEGY,))
    elif distributed.rendezvous.backend == "c10d":
        wrong = (
            'spare nodes cannot be used with rendezvous.backend = "c10d", which numbers nodes in order of '
            "arrival"
        )
        yield Finding(_SPARE, wrong, 'no spare, or rendezvous.backend = "static"', (_RENDEZVOUS,))


def trusted_network(given: Given) -> Iterator[Finding]:
    """torchrun's c10d rendezvous executes whatever any peer that can connect writes there."""
    config = given.config
    if config.distributed.rendezvous.backend == "c10d" and not config.launch.trusted_network:
        wrong = (
            "torchrun's c10d rendezvous listens on every address and unpickles what it reads: whoever "
            "reaches its port runs code as you. It is started only if every address of the network is trusted"
        )
        right = 'backend = "static", or launch.trusted_network = true'
        yield Finding(_RENDEZVOUS, wrong, right, (_TRUSTED,))


def devices(given: Given) -> Iterator[Finding]:
    """Each device is named once, and every rank has one."""
    distributed = given.config.distributed
    if isinstance(distributed.devices, list):
        right = all_keys()[("distributed", "devices")].expected
        for index, item in enumerate(distributed.devices):
            if item in distributed.devices[:index]:
                yield Finding(
                    (*_DEVICES, index), f"{shown(item)} is listed twice", "each one once", (_DEVICES,)
                )
            elif isinstance(item, str) and (not item.strip() or item != item.strip() or item.startswith("-")):
                yield Finding((*_DEVICES, index), f"{shown(item)} is not a device", right, (_DEVICES,))
        count = len(distributed.devices)
        if count == 0:
            yield Finding(_DEVICES, "the list is empty", '"cpu" for CPU ranks, or at least one GPU')
        elif (nproc := _most(distributed.nproc)) > count:
            wrong = f"{nproc} ranks do not fit on {count} device{'s' if count > 1 else ''}"
            yield Finding(_NPROC, wrong, f"at most {count}, one rank for each device", (_DEVICES,))
    if distributed.devices == "cpu" and distributed.backend == "nccl":
        path = ("distributed", "backend")
        yield Finding(path, 'nccl needs GPUs, and devices is "cpu"', '"gloo" or "auto"', (_DEVICES,))


def _most(nproc: int | str | None) -> int:
    """Return the most ranks that a node may get; 0 if that is not set, or invalid."""
    try:
        return 0 if nproc is None else count_range(nproc).most
    except RangeError:
        return 0


def nodes(given: Given) -> Iterator[Finding]:
    """Each node is named once, and is described if any are."""
    if isinstance(given.config.distributed.nodes, str):
        return
    seen: set[str] = set()
    described = dict.fromkeys(described_names(given.config))
    for index, text in enumerate(given.config.distributed.nodes):
        path = (*_NODES, index)
        try:
            names = expand(text)
        except NodeNameError as error:
            yield Finding(
                path, f"{shown(text)}: {error}", all_keys()[("distributed", "nodes")].expected, (_NODES,)
            )
            continue
        again = next((name for name in names if name in seen), None)
        unknown = next((name for name in names if name not in described and name != LOCALHOST), None)
        if again is not None:
            yield Finding(path, f"{shown(again)} is listed twice", "each one once", (_NODES,))
        elif described and unknown is not None and given.written(_NODES):
            near = nearest(unknown, described)
            right = (
                shown(near[0]) if near else "a name of one of [[cluster.nodes]], or a table that describes it"
            )
            yield Finding(path, f"no [[cluster.nodes]] describes {shown(unknown)}", right, (_NODES, _CLUSTER))
        seen.update(names)
    if given.written(_NODES) and LOCALHOST in seen and seen & described.keys() - {LOCALHOST}:
        wrong = "the other nodes cannot reach this machine as localhost"
        right = "this machine described in [[cluster.nodes]] under its host name, or localhost alone"
        yield Finding(_NODES, wrong, right, (_CLUSTER,))


def described(given: Given) -> Iterator[Finding]:
    """Check that [[cluster.nodes]] describes each machine once and consistently."""
    seen: set[str] = set()
    if given.written(_CLUSTER) and not given.written((*_CLUSTER, 0)):
        right = "a table [[cluster.nodes]] for each kind of machine, or no [cluster]"
        yield Finding(_CLUSTER, "the list is empty: no machine is described", right)
    for index, machines in enumerate(given.config.cluster.nodes):
        path = (*_CLUSTER, index)
        yield from _names(machines, path, seen)
        yield from _gpus(machines, path)


def _names(machines: ClusterNodes, path: KeyPath, seen: set[str]) -> Iterator[Finding]:
    try:
        names = expand(machines.name)
    except NodeNameError as error:
        right = all_keys()[("cluster", "nodes", "name")].expected
        yield Finding((*path, "name"), f"{shown(machines.name)}: {error}", right)
        return
    again = next((name for name in names if name in seen), None)
    if LOCALHOST in names:
        wrong = "localhost is this machine, which is probed, not described"
        yield Finding((*path, "name"), wrong, 'another name, or distributed.nodes = ["localhost"]')
    elif again is not None:
        yield Finding((*path, "name"), f"{shown(again)} is described twice", "each node once", (_CLUSTER,))
    seen.update(names)
    if machines.address is not None:
        yield from _addresses(machines.address, len(names), path)


def _addresses(text: str, wanted: int, path: KeyPath) -> Iterator[Finding]:
    try:
        count = len(expand(text))
    except NodeNameError as error:
        right = all_keys()[("cluster", "nodes", "address")].expected
        yield Finding((*path, "address"), f"{shown(text)}: {error}", right)
        return
    if count != wanted:
        wrong = f"it gives {count} address{'es' if count > 1 else ''}, and name gives {wanted} nodes"
        yield Finding(
            (*path, "address"), wrong, f"a range of {wanted}, such as 10.0.0.[1-{wanted}]", (_CLUSTER,)
        )


def _gpus(machines: ClusterNodes, path: KeyPath) -> Iterator[Finding]:
    for name in ("gpu", "memory", "devices"):
        if machines.gpus == 0 and getattr(machines, name) is not None:
            wrong = "it has no effect on nodes without GPUs: gpus is 0"
            yield Finding(
                (*path, name), wrong, f"the number of GPUs, such as gpus = 8, or no {name}", (_CLUSTER,)
            )
    if machines.gpus == 0:
        return
    if machines.gpu is not None and machines.memory is None and gpu_model(machines.gpu) is None:
        near = nearest(machines.gpu, gpu_names())
        right = (
            f'{shown(near[0])}, or its memory, such as memory = "80GiB"' if near else 'also memory = "80GiB"'
        )
        wrong = f"the memory of GPU {shown(machines.gpu)} is unknown"
        yield Finding((*path, "gpu"), wrong, f"{right}; known are {', '.join(gpu_names())}", (_CLUSTER,))
    for position, number in enumerate(machines.devices or ()):
        at = (*path, "devices", position)
        if number >= machines.gpus:
            wrong = f"there is no GPU {number} among {machines.gpus}"
            yield Finding(at, wrong, f"an index from 0 to {machines.gpus - 1}", (_CLUSTER,))
        elif number in (machines.devices or ())[:position]:
            yield Finding(at, f"{number} is listed twice", "each one once", (_CLUSTER,))
    if machines.devices == []:
        yield Finding((*path, "devices"), "the list is empty", "at least one index, or gpus = 0", (_CLUSTER,))


PLACEMENT_RULES: tuple[Rule, ...] = (
    ranges,
    spares,
    trusted_network,
    single,
    devices,
    nodes,
    described,
)
