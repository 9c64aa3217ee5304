"""What a plan would say were all nodes well: those at fault are taken to be like one that is. Pure.

So who has to mend a node hears at once what is wrong with the run file, too.
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
    """Every node of a run, as far as a plan is concerned."""

    inventory: Inventory
    interpreters: Mapping[str, InterpreterFacts]
    names: frozenset[str]
    """Of those about which nothing is known."""

    def not_about_them(self, problems: Sequence[Problem]) -> list[Problem]:
        """Without what names one of them: it is told of the node itself, or only of whom it is taken for."""
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
    """All nodes of `config`, where something stands in the way of some; None where none is well."""
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
    """A machine of another name that has what `model` has."""
    return replace(model, name=name, address=name)
