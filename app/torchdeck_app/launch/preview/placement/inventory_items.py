"""Nodes and groups of the node inventory, compared with the nodes that a run names. Without Qt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torchdeck.config.values.node_names import NodeNameError, expand
from torchdeck.nodes.inventory.names import NodeNamesError, members
from torchdeck.nodes.inventory.schema import NodeInventory
from torchdeck_app.launch.preview.placement.changes import shortened


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
