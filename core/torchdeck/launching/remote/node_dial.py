"""How the Python of one node of the book is dialled for a link."""

from __future__ import annotations

from torchdeck.launching.remote.bootstrap import PYTHON_ARGUMENTS
from torchdeck.launching.remote.dial import SshDial
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.start_line import python_line


def dial_of(reach: Connector, name: str, entry: NodeEntry) -> SshDial:
    """A dial to a node, whose entry in the book is `entry`. Raises ConfigError, TargetError."""
    line = python_line(entry, PYTHON_ARGUMENTS)
    return SshDial(reach.target(name), reach.credentials, reach.asker, line)
