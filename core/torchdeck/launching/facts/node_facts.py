"""Probes the nodes of a run over SSH: the facts of each that a plan needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from torchdeck.agent.probe.network import interfaces, route_to
from torchdeck.config.chosen_nodes import described_names
from torchdeck.config.problems import ConfigError, Problem
from torchdeck.config.schema import RunConfig
from torchdeck.config.spelling import nearest
from torchdeck.contract.inventory import LOCALHOST, NodeInfo
from torchdeck.launching.chosen_nodes import chosen
from torchdeck.launching.facts.absent_nodes import without_absent
from torchdeck.launching.facts.probed_nodes import KEY, NodeFault, NodeReport
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.probe.facts import NodeFacts, Route, interpreter_facts, node_info
from torchdeck.nodes.probe.probing import Probed
from torchdeck.nodes.ssh.errors import TargetError
from torchdeck.nodes.ssh.host_keys import Verdict as HostKey
from torchdeck.nodes.training_address import TrainingAddressError, training_address

if TYPE_CHECKING:
    from torchdeck.launching.facts.fact_sources import FactSources


def gather_node_facts(config: RunConfig, looks: FactSources) -> NodeReport:
    """Probe the nodes of the node inventory that `config` names; takes seconds if one does not answer."""
    try:
        node_inventory = looks.reach.node_inventory()
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
        right += f"`torchdeck nodes add {name} ADDRESS` writes it into the node inventory"
        problems.append(Problem(KEY, "", None, f"nothing is known about node {name!r}", right))
    return tuple(problems)


def _host(looks: FactSources, name: str) -> str:
    """Return SSH's host for a node; its name if that is unknown, which the probe then reports."""
    try:
        return looks.reach.target(name).host
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
    return NodeReport(
        tuple(names),
        tuple(found.values()),
        {name: interpreter_facts(each.facts) for name, each in probed.items() if each.facts is not None},
        probed,
        faults=tuple(faults),
    )


def _silent(probed: Probed) -> NodeFault:
    """Return the fault of a node without facts: it is unreachable, or its Python does not run."""
    if probed.fix:
        return NodeFault(probed.node, "interpreter", probed.error, probed.fix)
    fixes = {
        HostKey.KNOWN: f"`torchdeck nodes probe {probed.node}` tries again",
        HostKey.UNKNOWN: f"`torchdeck nodes trust {probed.node}` shows the key and asks whether it is right",
        HostKey.CHANGED: f"then `torchdeck nodes trust {probed.node}` shows the new one and writes it down",
        HostKey.REVOKED: "its administrator must give the host another key: no one may trust this one",
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
            fix = f"take one of them, or `torchdeck nodes edit {name} --training-address …` tells them apart"
            yield NodeFault(name, "address", what, fix)
