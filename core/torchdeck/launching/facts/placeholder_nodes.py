"""The plan if all nodes were healthy: faulty ones are replaced by copies of a healthy one. Pure.

A user who has to fix a node thus also learns at once about problems of the run file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from torchdeck.config.chosen_nodes import node_names
from torchdeck.config.problems import Problem
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import InterpreterFacts, Inventory, NodeInfo
from torchdeck.launching.facts.node_report import NodeReport


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
