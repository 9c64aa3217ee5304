"""Probes nodes: hardware, versions, load and runs of each, as it reports them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchdeck.nodes.probe.facts import Python
from torchdeck.nodes.probe.probing import Probed, Question, probe_nodes
from torchdeck.use_cases.nodes.chosen import ChosenNodes

__all__ = ["Probed", "Question", "probe", "pythons_here"]


def probe(chosen: ChosenNodes, question: Question | None = None) -> Iterator[Probed]:
    """Probe all nodes at once; yield each when it has answered or its timeout has passed."""
    connector = chosen.connector
    return probe_nodes(chosen.entries, connector.connect, question, connector.talking)


def pythons_here() -> list[Python]:
    """Return this machine's interpreters and environments with their packages, each once."""
    from torchdeck.agent.probe.environments import environments
    from torchdeck.agent.probe.pythons import other_pythons, own_python

    found = [own_python(), *other_pythons(), *environments(Path.home(), Path.cwd())]
    unique = {str(facts["executable"]): facts for facts in reversed(found)}
    return [Python.model_validate(facts) for facts in reversed(unique.values())]
