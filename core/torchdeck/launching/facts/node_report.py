"""What is known of the nodes of a run that are reached over SSH."""

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
    """Why nothing can be planned with a node that the node inventory knows."""

    node: str
    check: str
    """Of the checks before a start the one that it fails."""
    what: str
    """What was found; it names the node."""
    fix: str

    @property
    def problem(self) -> Problem:
        """The same for who wants a plan."""
        return Problem(KEY, "", None, self.what, self.fix)


@dataclass(frozen=True)
class NodeReport:
    """What is known of the nodes of a run; nothing where it has none but this machine."""

    names: tuple[str, ...] = ()
    """All of the run's nodes, in their order, without those that are absent."""
    nodes: tuple[NodeInfo, ...] = ()
    interpreters: Mapping[str, InterpreterFacts] = field(default_factory=dict)
    """By node."""
    probed: Mapping[str, Probed] = field(default_factory=dict)
    """What each node said, those that said nothing too."""
    problems: tuple[Problem, ...] = ()
    """What is wrong with the node inventory, or with the run's names of nodes."""
    faults: tuple[NodeFault, ...] = ()
    absent: tuple[AbsentNode, ...] = ()
    """Nodes that do not answer, and without which the run may begin."""

    @property
    def in_the_way(self) -> tuple[Problem, ...]:
        """Everything for which no plan can be made."""
        return (*self.problems, *(fault.problem for fault in self.faults))
