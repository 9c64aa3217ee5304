"""How a command reaches nodes: it may ask the person at the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchdeck.contract.layout import RunLayout


def logins_of(layout: RunLayout) -> Mapping[str, Any]:
    """What the nodes of a run need to be logged in to; asks, and imports, nothing for this machine alone."""
    from torchdeck.launching.node_logins import gather_logins
    from torchdeck.runs.folders.node_parts import remote_nodes

    if not remote_nodes(layout):
        return {}
    from torchdeck.cli.nodes.asking import terminal_asker
    from torchdeck.nodes.connector import Connector

    home = layout.home.root
    return gather_logins(layout, Connector(home, terminal_asker(home)))
