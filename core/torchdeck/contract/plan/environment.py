"""Environment that a plan has made on a node. Standard library only, Python 3.10: nodes read it too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlannedEnvironment:
    """Environment that the node's agent makes with uv before the first rank starts, if it is not there."""

    key: str
    """Name of the environment, by content."""
    source: str
    """File that lists its packages."""
    python: str
    """The Python that it is made for, which also runs the agent."""
    is_made: bool = False
    """Whether it was there when the plan was made."""
