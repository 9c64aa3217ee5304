"""Advice for a node whose Python cannot be used by runs."""

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
    """Return the fix if the node inventory names an interpreter that does not start."""
    return f"Choose another {_NAMES[chosen_by(entry)]} for it"


def python_fault(facts: NodeFacts) -> str:
    """Return why runs cannot use the node's Python; empty if they can."""
    python = facts.python
    if python.error:
        return f"{python.executable}: {python.error}"
    if major_minor(python.version) < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        return f"{python.executable} is Python {python.version}; runs need {wanted} or newer"
    return "" if python.torch else f"{python.executable} has no torch. torch is required"
