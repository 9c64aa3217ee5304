"""Names of the node inventory, for choosing the nodes of a run."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from torchdeck.nodes.inventory.names import TAG
from torchdeck.nodes.inventory.schema import NodeInventory
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Operation, Operations


class NodeNames(QObject):
    """Names read off the GUI thread; the last ones read are available at once."""

    changed = Signal()
    """Emitted when the inventory differs from the last one read."""

    def __init__(self, operations: Operations, logins: Logins, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._operations, self._reach = operations, logins.quiet
        self._reading: Operation[NodeInventory] | None = None
        self._node_inventory = NodeInventory()
        self._names: tuple[str, ...] = ()

    @property
    def node_inventory(self) -> NodeInventory:
        """Return the last inventory read; empty before the first."""
        return self._node_inventory

    def names(self) -> tuple[str, ...]:
        """Return groups, nodes and tags of the inventory."""
        return self._names

    def read(self) -> None:
        """Read the inventory again; if it is invalid, the last one stays, and Nodes shows the reason."""
        if self._reading is not None:
            return
        self._reading = self._operations.run(
            "reading the node inventory",
            lambda _progress, _cancel: self._reach.node_inventory(),
            done=self._take,
            failed=lambda _error: self._over(),
        )
        self._reading.cancelled.connect(self._over)

    def _take(self, node_inventory: NodeInventory) -> None:
        is_new, self._node_inventory = node_inventory != self._node_inventory, node_inventory
        self._names = names_in(node_inventory)
        self._over()
        if is_new:
            self.changed.emit()

    def _over(self) -> None:
        self._reading = None


def names_in(node_inventory: NodeInventory) -> tuple[str, ...]:
    """Return the names that `distributed.nodes` accepts: groups first, then nodes, then tags."""
    tags = dict.fromkeys(f"{TAG}{tag}" for entry in node_inventory.nodes.values() for tag in entry.tags)
    return (*node_inventory.groups, *node_inventory.nodes, *tags)
