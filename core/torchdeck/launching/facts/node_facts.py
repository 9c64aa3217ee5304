"""Facts about the nodes of a run that a plan needs: probed over SSH, or described by the run file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.agent.probe.network import interfaces, route_to
from torchdeck.config.chosen_nodes import described_names, wanted
from torchdeck.config.machines.cluster import Cluster, ClusterNodes
from torchdeck.config.problems import ConfigError, Problem
from torchdeck.config.schema import RunConfig
from torchdeck.config.spelling import nearest
from torchdeck.config.values.gpu_models import gpu_model
from torchdeck.config.values.node_names import expand
from torchdeck.contract.inventory import LOCALHOST, Device, InterpreterFacts, Inventory, NodeInfo
from torchdeck.contract.plan.launch_plan import AbsentNode
from torchdeck.launching.facts.probed_nodes import KEY, NodeFault, NodeReport, like
from torchdeck.nodes.inventory.names import run_nodes
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.probe.facts import NodeFacts, Route, interpreter_facts, node_info, uv_facts
from torchdeck.nodes.probe.probing import Probed
from torchdeck.nodes.ssh.errors import TargetError
from torchdeck.nodes.ssh.host_keys import Verdict as HostKey
from torchdeck.nodes.training_address import TrainingAddressError, training_address

if TYPE_CHECKING:
    from torchdeck.launching.facts.fact_sources import FactSources
    from torchdeck.nodes.connector import Connector


def gather_node_facts(config: RunConfig, looks: FactSources) -> NodeReport:
    """Probe the nodes of the node inventory that `config` names; takes seconds if one does not answer."""
    try:
        node_inventory = looks.connector.node_inventory()
    except ConfigError as error:
        return NodeReport(problems=tuple(error.problems))
    described = frozenset(described_names(config))
    names = chosen(config, node_inventory, described)
    asked = tuple(name for name in names if name in node_inventory.nodes)
    unknown = _unknown(names, node_inventory, described)
    if not asked:
        return NodeReport(problems=unknown)
    hosts = tuple(_host(looks, name) for name in asked)
    here = None
    if LOCALHOST in names:
        here = reached_here(looks.machine(LOCALHOST), hosts)
        hosts = (*hosts, here.address)
    directory = config.checkpoint.directory
    folders = () if directory is None else (directory,)
    probed = looks.nodes(asked, hosts if len(names) > 1 else (), folders)
    with_gpus = config.distributed.devices != "cpu"
    cluster_facts = probe_all_nodes(names, node_inventory, probed, here, with_gpus=with_gpus)
    return replace(cluster_facts if unknown else without_absent(config, cluster_facts), problems=unknown)


def _unknown(
    names: Sequence[str], node_inventory: NodeInventory, described: frozenset[str]
) -> tuple[Problem, ...]:
    """Return a problem for each unknown name in `names`, with the closest known name."""
    known = [LOCALHOST, *node_inventory.nodes, *described]
    problems = []
    for name in (name for name in names if name not in known):
        near = nearest(name, [*known, *node_inventory.groups])
        right = f"{near[0]}, or " if near else ""
        right += f"`torchdeck nodes add {name} ADDRESS` adds it to the node inventory"
        problems.append(Problem(KEY, "", None, f"unknown node {name!r}", right))
    return tuple(problems)


def _host(looks: FactSources, name: str) -> str:
    """Return SSH's host for a node; its name if that is unknown, which the probe then reports."""
    try:
        return looks.connector.target(name).host
    except TargetError:
        return name


def probe_all_nodes(
    names: Sequence[str],
    node_inventory: NodeInventory,
    probed: Mapping[str, Probed],
    here: NodeInfo | None = None,
    *,
    with_gpus: bool = True,
) -> NodeReport:
    """Return the facts that a plan needs of the nodes `names`.

    Args:
        names: the run's nodes in order; those missing in `probed` are skipped.
        book: their entries.
        probed: probe result of each.
        here: this machine as the others reach it, if it is one of them.
        with_gpus: the run may use GPUs; those in the inventory must then be present.
    """
    found: dict[str, NodeInfo] = {}
    faults: list[NodeFault] = []
    for name in names:
        if name == LOCALHOST and here is not None:
            found[name] = here
        elif name in probed:
            entry, facts = node_inventory.nodes[name], probed[name].facts
            if facts is None:
                faults.append(_silent(probed[name]))
                continue
            faults += _without_devices(name, entry, facts) if with_gpus else ()
            try:
                found[name] = _node(name, entry, facts, alone=len(names) == 1)
            except TrainingAddressError as error:
                faults.append(NodeFault(name, "address", error.what, error.fix))
    faults += _twice(found)
    answered = {name: each.facts for name, each in probed.items() if each.facts is not None}
    return NodeReport(
        tuple(names),
        tuple(found.values()),
        {name: interpreter_facts(facts) for name, facts in answered.items()},
        probed,
        faults=tuple(faults),
        uv={name: uv_facts(facts) for name, facts in answered.items()},
    )


def _silent(probed: Probed) -> NodeFault:
    """Return the fault of a node without facts: it is unreachable, or its Python does not run."""
    if probed.fix:
        return NodeFault(probed.node, "interpreter", probed.error, probed.fix)
    fixes = {
        HostKey.KNOWN: f"`torchdeck nodes probe {probed.node}` tries again",
        HostKey.UNKNOWN: f"`torchdeck nodes trust {probed.node}` shows the key and asks you to verify it",
        HostKey.CHANGED: f"then `torchdeck nodes trust {probed.node}` shows and saves the new one",
        HostKey.REVOKED: "its administrator must replace the host key; a revoked key cannot be trusted",
    }
    return NodeFault(probed.node, "ssh", probed.error, fixes[probed.host_key])


def _without_devices(name: str, entry: NodeEntry, facts: NodeFacts) -> Iterator[NodeFault]:
    """Yield faults for GPUs in the node inventory that the node does not have: it would train on fewer, or on
    the CPU.
    """
    there = [gpu.index for gpu in facts.gpu.devices]
    gone = [index for index in entry.devices or () if index not in there]
    if gone:
        have = facts.gpu.error or f"it has {', '.join(map(str, there)) or 'none'}"
        what = f"node {name} has no GPU {', '.join(map(str, gone))}, which the node inventory names: {have}"
        way = "--devices …` names those that are there" if there else "--unset devices` does without them"
        fix = f"look at the driver there (`nvidia-smi`), or `torchdeck nodes edit {name} {way}"
        yield NodeFault(name, "devices", what, fix)


def _node(name: str, entry: NodeEntry, facts: NodeFacts, *, alone: bool) -> NodeInfo:
    if alone:
        info, interface = node_info(name, entry.address, facts), ""
    else:
        address, interface = training_address(name, entry, facts)
        info = node_info(name, address, facts)
    devices = info.devices
    if entry.devices is not None:
        devices = tuple(device for device in devices if device.index in entry.devices)
    return replace(
        info,
        devices=devices,
        interface=interface,
        remote=True,
        working_dir=entry.working_dir or "",
        max_ranks=entry.max_ranks,
    )


def reached_here(here: NodeInfo, peers: Sequence[str]) -> NodeInfo:
    """Return this machine with its address on the route to the first of `peers` for which the kernel has a
    route.
    """
    known = interfaces() if peers else []
    for peer in peers:
        route = Route.model_validate(route_to(peer, known))
        if not route.error:
            return replace(here, address=route.address, interface=route.interface)
    return here


def _twice(found: Mapping[str, NodeInfo]) -> Iterator[NodeFault]:
    """Yield faults for two names of one address: the machine would wait for itself."""
    first: dict[str, str] = {}
    for name, info in found.items():
        other = first.setdefault(info.address, name)
        if other != name:
            what = f"node {name} has the same address as {other}, {info.address}"
            fix = (
                f"use one of them, or change an address with `torchdeck nodes edit {name} "
                "--training-address …`"
            )
            yield NodeFault(name, "address", what, fix)


# The nodes that a run file chooses, and connecting to them before they are needed.


def chosen(config: RunConfig, node_inventory: NodeInventory, described: frozenset[str]) -> list[str]:
    """Return the nodes that `config` names; see `nodes.inventory.names.run_nodes`."""
    return run_nodes(node_inventory, config.distributed.nodes, described, config.distributed.spare)


@contextmanager
def pre_connected(config: RunConfig, connector: Connector | None) -> Iterator[Connector | None]:
    """`connector`, connecting to the nodes of `config` in threads while the caller plans and checks.

    The connections stay open until the block ends. A connection that fails is reported to the first caller
    that needs it.

    Args:
        config: of the run.
        connector: how nodes are reached; None: there are none.
    """
    if connector is None:
        yield None
        return
    with connector.keeping_probe_sessions(nodes_in_inventory(config, connector)) as kept:
        yield kept


def nodes_in_inventory(config: RunConfig, connector: Connector) -> list[str]:
    """Return the nodes that can be connected to. A damaged inventory is reported by the code that probes the
    nodes.
    """
    try:
        node_inventory = connector.node_inventory()
    except ConfigError:
        return []
    names = chosen(config, node_inventory, frozenset(described_names(config)))
    return [name for name in names if name in node_inventory.nodes]


# Nodes that do not answer and are not required for a start, because a range or spares allow it. Pure.


class PlannedNodes(NamedTuple):
    """Input of a plan before absent nodes are removed from it."""

    config: RunConfig
    """Configuration with the nodes by name and the actual number of spares."""
    inventory: Inventory
    interpreters: Mapping[str, InterpreterFacts]
    missing: tuple[str, ...]
    """Absent nodes that have ranks in that plan: placeholders."""


def without_absent(config: RunConfig, cluster_facts: NodeReport) -> NodeReport:
    """Return `survey` with unreachable nodes as absent instead of faults, if the remaining ones suffice.

    A node with a changed host key, or whose Python does not run, stays a fault: it answers.
    """
    silent = {
        name: found.error.removeprefix(f"node {name}: ")
        for name, found in cluster_facts.probed.items()
        if found.facts is None and not found.fix and found.host_key is HostKey.KNOWN
    }
    answering = tuple(name for name in cluster_facts.names if name not in silent)
    if not silent or len(answering) < max(1, wanted(config.distributed, len(cluster_facts.names)).least):
        return cluster_facts
    return replace(
        cluster_facts,
        names=answering,
        probed={name: found for name, found in cluster_facts.probed.items() if name not in silent},
        faults=tuple(fault for fault in cluster_facts.faults if fault.node not in silent),
        absent=tuple(AbsentNode(name, silent[name]) for name in cluster_facts.names if name in silent),
    )


def planned_nodes(
    config: RunConfig,
    remote: NodeReport,
    inventory: Inventory,
    interpreters: Mapping[str, InterpreterFacts],
) -> PlannedNodes:
    """Return the input of a plan of the requested size, with groups and tags of the node inventory expanded.

    If too few nodes answer for that size, placeholders like the first node fill it up. The arithmetic of a
    step is then that of the requested size.
    """
    names = remote.names
    if not names:
        return PlannedNodes(config, inventory, interpreters, ())
    asked = wanted(config.distributed, len(names) + len(remote.absent)).most
    missing = tuple(node.name for node in remote.absent[: max(0, asked - len(names))])
    changed: dict[str, object] = {"spare": max(0, len(names) - asked)}
    if not isinstance(config.distributed.nodes, str):
        changed["nodes"] = list(names)
    distributed = config.distributed.model_copy(update=changed)
    config = config.model_copy(update={"distributed": distributed})
    if not missing:
        return PlannedNodes(config, inventory, interpreters, ())
    model = next(node for node in inventory if node.name == names[0])
    return PlannedNodes(
        config,
        Inventory((*inventory, *(like(model, name) for name in missing))),
        {**interpreters, **dict.fromkeys(missing, interpreters[model.name])},
        missing,
    )


# Machines as described by a run file.


def inventory_from(cluster: Cluster) -> Inventory:
    """Return every machine that [cluster] describes, in its order; free resources are unknown."""
    return Inventory(tuple(node for machines in cluster.nodes for node in _nodes(machines)))


def _nodes(machines: ClusterNodes) -> list[NodeInfo]:
    """Return the nodes; identical machines share one tuple of devices."""
    names = expand(machines.name)
    addresses = names if machines.address is None else expand(machines.address)
    devices = _devices(machines)
    return [
        NodeInfo(
            name=name,
            address=address,
            devices=devices,
            cpu_count=machines.cores or max(1, machines.gpus),
            memory_bytes=machines.host_memory or 0,
            described=True,
        )
        for name, address in zip(names, addresses, strict=True)
    ]


def _devices(machines: ClusterNodes) -> tuple[Device, ...]:
    model = None if machines.gpu is None else gpu_model(machines.gpu)
    memory = machines.memory or (0 if model is None else model.memory_bytes)
    indices = range(machines.gpus) if machines.devices is None else machines.devices
    return tuple(Device(index, "", machines.gpu or "GPU", memory) for index in indices)
