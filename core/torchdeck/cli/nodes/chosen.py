"""The nodes that a command line names, and how they are reached: a person is asked one thing at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.cli.nodes.lookup import NodesUsageError, inventory_file

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector
    from torchdeck.nodes.inventory.schema import NodeEntry
    from torchdeck.nodes.ssh.credentials import Asker
    from torchdeck.nodes.ssh.target import SshTarget

Around = Callable[[], AbstractContextManager[object]]
"""Context around a question: a live display must give way to it."""


class ChosenNodes(NamedTuple):
    """Nodes, and how to connect to them."""

    reach: Connector
    entries: dict[str, NodeEntry]
    """By name, in the order that they were named in."""


class InTurn:
    """Passes on one question at a time, as many nodes are connected to at once."""

    def __init__(self, asker: Asker, around: Around = nullcontext) -> None:
        self._asker = asker
        self._around = around
        self._lock = threading.Lock()

    def password(self, target: SshTarget, *, again: bool) -> str | None:
        with self._lock, self._around():
            return self._asker.password(target, again=again)

    def passphrase(self, path: Path, *, again: bool) -> str | None:
        with self._lock, self._around():
            return self._asker.passphrase(path, again=again)

    def trust(self, target: SshTarget, key_type: str, fingerprint: str) -> bool:
        with self._lock, self._around():
            return self._asker.trust(target, key_type, fingerprint)


def chosen_nodes(asked: Sequence[str], around: Around = nullcontext) -> ChosenNodes:
    """The nodes that `asked` names, all of the book where it is empty.

    Args:
        asked: names, groups, ranges and tags.
        around: surrounds what a person is asked at the terminal.

    Raises:
        HomeError, ConfigError, NodeNamesError: there is no such book or node.
        NodesUsageError: the book has no nodes.
    """
    from torchdeck.cli.nodes.asking import terminal_asker
    from torchdeck.nodes.connector import Connector
    from torchdeck.nodes.inventory.names import named_nodes

    home = inventory_file().parent
    reach = Connector(home, InTurn(terminal_asker(home), around))
    node_inventory = reach.node_inventory()
    names = named_nodes(node_inventory, list(asked)) if asked else list(node_inventory.nodes)
    if not names:
        raise NodesUsageError("there are no nodes yet; `torchdeck nodes add NAME ADDRESS` writes one down")
    return ChosenNodes(reach, {name: node_inventory.nodes[name] for name in names})
