"""Facts about the nodes of a run that are reached over SSH."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.config.chosen_nodes import node_names
from torchdeck.config.problems import Problem
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import InterpreterFacts, Inventory, NodeInfo, UvFacts
from torchdeck.contract.plan.launch_plan import AbsentNode

if TYPE_CHECKING:
    from torchdeck.nodes.probe.probing import Probed


KEY = "distributed.nodes"


class NodeFault(NamedTuple):
    """Reason why no plan can be made with a node of the node inventory."""

    node: str
    check: str
    """The check before a start that it fails."""
    what: str
    """Finding, which names the node."""
    fix: str

    @property
    def problem(self) -> Problem:
        """Return the same as a problem of the plan."""
        return Problem(KEY, "", None, self.what, self.fix)


@dataclass(frozen=True)
class NodeReport:
    """Facts about the nodes of a run; empty if it has none but this machine."""

    names: tuple[str, ...] = ()
    """All of the run's nodes in order, without absent ones."""
    nodes: tuple[NodeInfo, ...] = ()
    interpreters: Mapping[str, InterpreterFacts] = field(default_factory=dict)
    """By node."""
    probed: Mapping[str, Probed] = field(default_factory=dict)
    """Probe result of each node, including those without an answer."""
    problems: tuple[Problem, ...] = ()
    """Problems of the node inventory, or of the run's node names."""
    faults: tuple[NodeFault, ...] = ()
    absent: tuple[AbsentNode, ...] = ()
    """Nodes that do not answer and are not required for a start."""
    uv: Mapping[str, UvFacts] = field(default_factory=dict)
    """By node."""

    @property
    def in_the_way(self) -> tuple[Problem, ...]:
        """Return all problems that prevent a plan."""
        return (*self.problems, *(fault.problem for fault in self.faults))


# The plan if all nodes were healthy: faulty ones are replaced by copies of a healthy one. Pure.
#
# A user who has to fix a node thus also learns at once about problems of the run file.


class PlaceholderNodes(NamedTuple):
    """Every node of a run, for the purposes of a plan."""

    inventory: Inventory
    interpreters: Mapping[str, InterpreterFacts]
    names: frozenset[str]
    """Names of the nodes without facts."""

    def not_about_them(self, problems: Sequence[Problem]) -> list[Problem]:
        """Remove problems that name one of them: reported for the node itself, or true only of the
        placeholder.
        """
        if not self.names:
            return list(problems)
        named = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(self.names)))})\b")
        return [problem for problem in problems if not named.search(problem.wrong)]


def placeholder_nodes(
    config: RunConfig,
    remote: NodeReport,
    inventory: Inventory,
    interpreters: Mapping[str, InterpreterFacts],
) -> PlaceholderNodes | None:
    """Return all nodes of `config` if some have faults; None if no node is healthy."""
    at_fault = {fault.node for fault in remote.faults}
    well = [node for node in inventory if node.name not in at_fault]
    names = remote.names or tuple(node_names(config))
    model = next((node for node in well if node.name in names), None)
    if model is None or model.name not in interpreters:
        return None
    missing = [name for name in names if name not in {node.name for node in well}]
    made = [like(model, name) for name in missing]
    known = {name: facts for name, facts in interpreters.items() if name not in missing}
    return PlaceholderNodes(
        Inventory((*well, *made)),
        {**known, **dict.fromkeys(missing, interpreters[model.name])},
        frozenset(missing),
    )


def like(model: NodeInfo, name: str) -> NodeInfo:
    """Return a machine with another name and the resources of `model`."""
    return replace(model, name=name, address=name)
