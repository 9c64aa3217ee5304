"""Connections to nodes from here: the node inventory, known credentials, and the prompt for others."""

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
    """Connects to nodes of the inventory. Any thread may use it."""

    home: Path
    """TORCHDECK_HOME."""
    asker: Asker = field(default_factory=NoAsker)
    credentials: Credentials = field(default_factory=Credentials)
    talking: Talking | None = None
    """Opens a probe session; None: over a connection of its own."""

    def node_inventory(self) -> NodeInventory:
        """Return the current node inventory. Raises ConfigError."""
        return read_inventory(inventory_path(self.home))

    def stamp(self) -> tuple[int, int]:
        """Return time and size of the inventory file: cached facts about nodes are valid while it is
        unchanged.
        """
        try:
            found = inventory_path(self.home).stat()
        except OSError:
            return (0, 0)
        return (found.st_mtime_ns, found.st_size)

    def entry(self, name: str) -> NodeEntry:
        """Return the inventory entry of a node. Raises ConfigError, TargetError."""
        node_inventory = self.node_inventory()
        if name not in node_inventory.nodes:
            target_of(name, node_inventory, self.home)  # raises an error with the fix
        return node_inventory.nodes[name]

    def target(self, name: str) -> SshTarget:
        """Return the route to a node. Raises ConfigError, TargetError."""
        return target_of(name, self.node_inventory(), self.home)

    def connect(self, name: str, limit: float) -> Connection:
        """Connect to a node of the inventory within `limit` seconds. Raises ConfigError, SshError."""
        return connect(self.target(name), self.credentials, self.asker, limit)

    def open_probe_session(self, name: str, limit: float) -> AbstractContextManager[ProbeSession]:
        """Open a probe session with a node of the inventory. Raises ConfigError; on entering SshError,
        ProbeError.
        """
        from torchdeck.nodes.probe.opening import open_probe_session  # a controller does not need it

        return (self.talking or open_probe_session)(
            name, self.node_inventory().nodes[name], self.connect, limit
        )

    @contextmanager
    def keeping_probe_sessions(self, first: Iterable[str] = ()) -> Iterator[Connector]:
        """Yield a connector whose probe sessions stay open for the next caller until the block ends.

        Args:
            first: nodes of the inventory; a session with each is opened at once, in the background.

        Raises:
            ConfigError: there are some, and the inventory is damaged.
        """
        if self.talking is not None:
            yield self  # they stay open already
            return
        from torchdeck.nodes.probe.session_pool import SessionPool

        kept = SessionPool()
        try:
            names = list(first)
            nodes = self.node_inventory().nodes if names else {}
            quiet = replace(self, asker=NoAsker())  # prompts come when the answer is waited for

            kept.begin({name: nodes[name] for name in names}, quiet.connect)
            yield replace(self, talking=kept)
        finally:
            kept.close()
