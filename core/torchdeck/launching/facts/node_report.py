"""Facts about the nodes of a run that are reached over SSH."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.config.problems import Problem
from torchdeck.contract.inventory import InterpreterFacts, NodeInfo
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

    @property
    def in_the_way(self) -> tuple[Problem, ...]:
        """Return all problems that prevent a plan."""
        return (*self.problems, *(fault.problem for fault in self.faults))
