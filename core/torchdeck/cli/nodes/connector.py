"""How a command reaches nodes: it may ask the person at the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchdeck.config.schema import RunConfig
    from torchdeck.contract.layout import RunLayout
    from torchdeck.launching.facts.looks import Looks
    from torchdeck.nodes.connector import Connector


def reach_for(config: RunConfig, home: Path) -> Connector | None:
    """What connects to the nodes of `config`; None, with nothing imported, for this machine alone."""
    from torchdeck.config.chosen_nodes import is_here_alone

    if is_here_alone(config):
        return None
    from torchdeck.cli.nodes.asking import terminal_asker
    from torchdeck.nodes.connector import Connector

    return Connector(home, terminal_asker(home))


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


def looks_for(config: RunConfig) -> Looks | None:
    """How a command looks at the nodes of `config`; None where it names this machine alone."""
    from torchdeck.config.chosen_nodes import is_here_alone

    if is_here_alone(config):
        return None
    from torchdeck.launching.facts.looks import Looks
    from torchdeck.runs.home import usual_home

    home = usual_home()
    return Looks(home, reach_for(config, home))
