"""Items of the inventory, and changes that add one to the run or remove it. Without Qt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from PySide6.QtCore import QObject, Signal, SignalInstance

from torchdeck.config.values.node_names import NodeNameError, expand
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.nodes.inventory.names import NodeNamesError, members
from torchdeck.nodes.inventory.schema import NodeInventory
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.preview.placement.placement_changes import Change, RefusedError, shortened

KEY = "distributed.nodes"


class HasInventory(Protocol):
    """Interface of NodeNames as used here."""

    changed: SignalInstance

    @property
    def node_inventory(self) -> NodeInventory: ...


class NodeChange(NamedTuple):
    """Change, with a note on its unexpected effects."""

    change: Change
    note: str = ""


class RunNodes(QObject):
    """Nodes of the current text: a preview of it may take as long as its nodes take to respond."""

    changed = Signal()
    """Emitted when the items, or their use in the run, have changed."""

    def __init__(self, document: RunDocument, names: HasInventory, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._document, self._names = document, names
        self._items: tuple[InventoryItem, ...] = ()
        document.checked.connect(lambda _checked: self._look())
        names.changed.connect(self._look)

    @property
    def items(self) -> tuple[InventoryItem, ...]:
        """Return groups and nodes of the inventory, compared with the last checked document."""
        return self._items

    def added(self, name: str, before: str = "") -> NodeChange:
        """Return the change that adds a node or group of the inventory to the run.

        Args:
            name: name of the node or group.
            before: the node of the run before which it is inserted; at the end if empty.

        Raises:
            RefusedError: the run file lets the launch choose, or it is in the run already.
        """
        texts = self._texts()
        node_inventory = self._names.node_inventory
        wanted = nodes_of(node_inventory, name)
        if set(wanted) <= {node for text in texts for node in nodes_of(node_inventory, text)}:
            raise RefusedError(f"{name} is in the run already")
        is_first = not texts and LOCALHOST not in wanted
        note = f"{name} replaces this machine, which runs use if they name no nodes"
        return NodeChange({KEY: added(node_inventory, texts, name, before)}, note if is_first else "")

    def removed(self, name: str) -> NodeChange:
        """Return the change that removes a node, or the nodes of a group, from the run.

        Raises:
            RefusedError: the run file lets the launch choose, or names no nodes, or not this one.
        """
        texts = self._texts()
        node_inventory = self._names.node_inventory
        gone = nodes_of(node_inventory, name)
        if not texts:
            raise RefusedError(f"the run names no nodes: add another one, and {name} is not used")
        left = without(node_inventory, texts, gone)
        if left == texts:
            raise RefusedError(f"{name} is not in the run")
        if left:
            return NodeChange({KEY: left})
        if self._described() or LOCALHOST in gone:
            raise RefusedError(f"{name} is the only node of the run: add another node first")
        return NodeChange({KEY: None}, "The run names no nodes now and uses this machine")

    def _texts(self) -> list[str]:
        """Return the entries of the document or of one that it extends, else the nodes of [cluster]."""
        path, newest = ("distributed", "nodes"), self._document.newest
        written = _within(self._document.table, *path)
        if written is None and newest is not None and _within(newest.table or {}, *path) is None:
            written = _within(newest.written, *path)  # which then comes from the other document
        if isinstance(written, str):
            raise RefusedError(
                f'{KEY} = "{written}" lets the launch choose; to choose here, write names: {KEY} = ["…"]'
            )
        return _names(written) or self._described()

    def _described(self) -> list[str]:
        machines = _within(self._document.table, "cluster", "nodes")
        entries = machines if isinstance(machines, list) else ()
        return _names([entry.get("name") for entry in entries if isinstance(entry, Mapping)])

    def _look(self) -> None:
        try:
            texts = self._texts()
        except RefusedError:
            texts = []
        before, self._items = self._items, inventory_items(self._names.node_inventory, texts)
        if self._items != before:
            self.changed.emit()


def _within(table: Mapping[str, Any], *path: str) -> Any:
    """Return the value at `path`; None if there is none."""
    found: Any = table
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _names(value: object) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


# Nodes and groups of the node inventory, compared with the nodes that a run names. Without Qt.


@dataclass(frozen=True)
class InventoryItem:
    """Node of the inventory, or a group of nodes."""

    name: str
    nodes: tuple[str, ...]
    """Its nodes: itself, or those of the group."""
    used: int
    """Number of these that the run names."""
    is_group: bool = False
    where: str = ""
    """Address of a node, or the nodes of a group."""

    @property
    def is_used(self) -> bool:
        """Return whether all of it is in the run."""
        return self.used == len(self.nodes)

    @property
    def state(self) -> str:
        """Return in words whether it is in the run."""
        if self.is_used:
            return "in the run"
        return f"{self.used} of {len(self.nodes)} in the run" if self.used else "not in the run"


def inventory_items(node_inventory: NodeInventory, texts: Iterable[str]) -> tuple[InventoryItem, ...]:
    """Return groups first, then nodes, in inventory order.

    Args:
        book: the inventory.
        texts: entries of distributed.nodes.
    """
    chosen = {name for text in texts for name in nodes_of(node_inventory, text)}
    groups = {name: nodes_of(node_inventory, name) for name in node_inventory.groups}
    found = [
        InventoryItem(name, nodes, len(chosen.intersection(nodes)), is_group=True, where=", ".join(nodes))
        for name, nodes in groups.items()
    ]
    found += [
        InventoryItem(name, (name,), int(name in chosen), where=entry.address)
        for name, entry in node_inventory.nodes.items()
    ]
    return tuple(found)


def added(node_inventory: NodeInventory, texts: Sequence[str], name: str, before: str = "") -> list[str]:
    """Return `texts` with a node or group of the inventory added.

    Args:
        book: defines the names.
        texts: entries of distributed.nodes.
        name: name of the node or group.
        before: the node before which it is inserted; at the end if empty.
    """
    own = set(nodes_of(node_inventory, name))
    rest = without(node_inventory, texts, own) if own else list(texts)
    at = next((at for at, text in enumerate(rest) if before in nodes_of(node_inventory, text)), len(rest))
    return [*rest[:at], name, *rest[at:]]


def without(node_inventory: NodeInventory, texts: Iterable[str], gone: Iterable[str]) -> list[str]:
    """Return `texts` without the nodes `gone`; entries with several nodes are expanded if they included
    one.
    """
    out = set(gone)
    kept: list[str] = []
    for text in texts:
        nodes = nodes_of(node_inventory, text)
        left = [node for node in nodes if node not in out]
        kept += [text] if len(left) == len(nodes) else shortened(left)
    return kept


def nodes_of(node_inventory: NodeInventory, text: str) -> tuple[str, ...]:
    """Return the nodes that an entry of distributed.nodes names; the entry itself if unknown."""
    try:
        return tuple(dict.fromkeys(members(node_inventory, text)))
    except NodeNamesError:
        pass  # a machine of [cluster], this one, or one not added yet
    try:
        return expand(text)
    except NodeNameError:
        return (text,)
