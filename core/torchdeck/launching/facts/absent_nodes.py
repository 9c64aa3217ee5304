"""Nodes that do not answer and are not required for a start, because a range or spares allow it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from torchdeck.config.chosen_nodes import wanted
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import InterpreterFacts, Inventory
from torchdeck.contract.plan.launch_plan import AbsentNode
from torchdeck.launching.facts.probed_nodes import NodeReport, like
from torchdeck.nodes.ssh.host_keys import Verdict as HostKey


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
