"""How nodes are reached from here: the node inventory, what has been asked for, and who is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.nodes.inventory.file import inventory_path, read_inventory
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.ssh.connection import Connection, connect
from torchdeck.nodes.ssh.credentials import Asker, Credentials, NoAsker
from torchdeck.nodes.ssh.target import SshTarget, target_of

if TYPE_CHECKING:
    from torchdeck.nodes.probe.opening import Talking
    from torchdeck.nodes.probe.probe_session import ProbeSession


@dataclass(frozen=True)
class Connector:
    """Connects to nodes of the book. Any thread may use it."""

    home: Path
    """TORCHDECK_HOME."""
    asker: Asker = field(default_factory=NoAsker)
    credentials: Credentials = field(default_factory=Credentials)
    talking: Talking | None = None
    """How a conversation is begun; None: by a connection of its own."""

    def node_inventory(self) -> NodeInventory:
        """The node inventory as it is now. Raises ConfigError."""
        return read_inventory(inventory_path(self.home))

    def stamp(self) -> tuple[int, int]:
        """Time and size of the book's file: what was remembered of nodes holds while it is the same."""
        try:
            found = inventory_path(self.home).stat()
        except OSError:
            return (0, 0)
        return (found.st_mtime_ns, found.st_size)

    def entry(self, name: str) -> NodeEntry:
        """What the book says of a node. Raises ConfigError, TargetError."""
        node_inventory = self.node_inventory()
        if name not in node_inventory.nodes:
            target_of(name, node_inventory, self.home)  # raises: it says what is right
        return node_inventory.nodes[name]

    def target(self, name: str) -> SshTarget:
        """The way to a node. Raises ConfigError, TargetError."""
        return target_of(name, self.node_inventory(), self.home)

    def connect(self, name: str, limit: float) -> Connection:
        """Connect to a node of the book within `limit` seconds. Raises ConfigError, SshError."""
        return connect(self.target(name), self.credentials, self.asker, limit)

    def open_probe_session(self, name: str, limit: float) -> AbstractContextManager[ProbeSession]:
        """A conversation with a node of the book. Raises ConfigError; on entering SshError, ProbeError."""
        from torchdeck.nodes.probe.opening import open_probe_session  # a controller needs none of it

        return (self.talking or open_probe_session)(
            name, self.node_inventory().nodes[name], self.connect, limit
        )

    @contextmanager
    def keeping_probe_sessions(self, first: Iterable[str] = ()) -> Iterator[Connector]:
        """The same, with conversations that stay open for the next who asks until the block ends.

        Args:
            first: nodes of the book with which one is begun at once; waits for none.

        Raises:
            ConfigError: there are some, and the book is damaged.
        """
        if self.talking is not None:
            yield self  # they stay open already
            return
        from torchdeck.nodes.probe.session_pool import SessionPool

        kept = SessionPool()
        try:
            names = list(first)
            nodes = self.node_inventory().nodes if names else {}
            quiet = replace(self, asker=NoAsker())  # a question comes when its answer is waited for

            kept.begin({name: nodes[name] for name in names}, quiet.connect)
            yield replace(self, talking=kept)
        finally:
            kept.close()
