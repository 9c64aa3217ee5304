"""What helps a node whose Python is not one that runs can use."""

from __future__ import annotations

from torchdeck.contract.inventory import major_minor
from torchdeck.nodes.interpreter import OLDEST_PYTHON
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.facts import NodeFacts
from torchdeck.nodes.start_line import chosen_by

_NAMES = {
    "python": "Python",
    "venv": "virtual environment",
    "conda": "conda environment",
    "activate": "script that activates its environment",
}


def python_fix(entry: NodeEntry) -> str:
    """Where the node inventory names what does not run."""
    return f"Choose another {_NAMES[chosen_by(entry)]} for it"


def python_fault(facts: NodeFacts) -> str:
    """Why runs cannot use the Python of a node; empty where they can."""
    python = facts.python
    if python.error:
        return f"{python.executable}: {python.error}"
    if major_minor(python.version) < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        return f"{python.executable} is Python {python.version}; runs need {wanted} or newer"
    return "" if python.torch else f"{python.executable} has no torch. torch is required"
