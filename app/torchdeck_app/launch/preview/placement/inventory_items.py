"""Nodes and groups of the node inventory against the nodes that a run names. Without Qt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torchdeck.config.values.node_names import NodeNameError, expand
from torchdeck.nodes.inventory.names import NodeNamesError, members
from torchdeck.nodes.inventory.schema import NodeInventory
from torchdeck_app.launch.preview.placement.changes import shortened


@dataclass(frozen=True)
class InventoryItem:
    """A node of the book, or a group of them."""

    name: str
    nodes: tuple[str, ...]
    """The nodes that it names: itself, or those of the group."""
    used: int
    """How many of these the run names."""
    is_group: bool = False
    where: str = ""
    """Address of a node, or the nodes of a group."""

    @property
    def is_used(self) -> bool:
        """All of it is in the run."""
        return self.used == len(self.nodes)

    @property
    def state(self) -> str:
        """Whether it is in the run, in words."""
        if self.is_used:
            return "in the run"
        return f"{self.used} of {len(self.nodes)} in the run" if self.used else "not in the run"


def inventory_items(node_inventory: NodeInventory, texts: Iterable[str]) -> tuple[InventoryItem, ...]:
    """Groups first, then nodes, as the book has them.

    Args:
        book: which there are.
        texts: what distributed.nodes lists.
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
    """`texts` with a node or group of the book.

    Args:
        book: what names mean.
        texts: of distributed.nodes.
        name: of the node or group.
        before: the node that it comes before; behind all where none is named.
    """
    own = set(nodes_of(node_inventory, name))
    rest = without(node_inventory, texts, own) if own else list(texts)
    at = next((at for at, text in enumerate(rest) if before in nodes_of(node_inventory, text)), len(rest))
    return [*rest[:at], name, *rest[at:]]


def without(node_inventory: NodeInventory, texts: Iterable[str], gone: Iterable[str]) -> list[str]:
    """`texts` that name none of the nodes `gone`; what names several is replaced where it named one."""
    out = set(gone)
    kept: list[str] = []
    for text in texts:
        nodes = nodes_of(node_inventory, text)
        left = [node for node in nodes if node not in out]
        kept += [text] if len(left) == len(nodes) else shortened(left)
    return kept


def nodes_of(node_inventory: NodeInventory, text: str) -> tuple[str, ...]:
    """What one text of distributed.nodes names; the text itself where nobody knows."""
    try:
        return tuple(dict.fromkeys(members(node_inventory, text)))
    except NodeNamesError:
        pass  # a machine that [cluster] describes, this one, or one that is not there yet
    try:
        return expand(text)
    except NodeNameError:
        return (text,)
