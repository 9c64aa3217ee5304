"""Taking nodes and groups out of a nodes.toml, out of its groups too."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.nodes.inventory.schema import NodeGroup, NodeInventory
from torchdeck.nodes.inventory.text import with_group, without_group, without_node


def without(text: str, node_inventory: NodeInventory, names: Sequence[str]) -> str:
    """The text without these nodes and groups, and without a group that has nobody left.

    Args:
        text: of a nodes.toml.
        book: what it says.
        names: of nodes and groups that are in it.

    Raises:
        EditError: the text does not let itself be changed so.
    """
    for name in names:
        text = without_node(text, name) if name in node_inventory.nodes else without_group(text, name)
    gone = set(names)
    while True:  # a group that is gone may have been all there was of another
        groups = {
            name: [of for of in group.nodes if of not in gone]
            for name, group in node_inventory.groups.items()
        }
        empty = {name for name, nodes in groups.items() if not nodes} - gone
        if not empty:
            break
        gone |= empty
    for name, nodes in groups.items():
        if name in gone and name not in names:
            text = without_group(text, name)
        elif name not in gone and nodes != node_inventory.groups[name].nodes:
            text = with_group(text, name, NodeGroup(nodes=nodes))
    return text
