"""Removal of nodes and groups from a nodes.toml, including its groups."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.nodes.inventory.schema import NodeGroup, NodeInventory
from torchdeck.nodes.inventory.text import with_group, without_group, without_node


def without(text: str, node_inventory: NodeInventory, names: Sequence[str]) -> str:
    """Return the text without these nodes and groups, and without groups that become empty.

    Args:
        text: text of a nodes.toml.
        node_inventory: its parsed content.
        names: nodes and groups that are in it.

    Raises:
        EditError: the text cannot be changed this way.
    """
    for name in names:
        text = without_node(text, name) if name in node_inventory.nodes else without_group(text, name)
    gone = set(names)
    while True:  # a removed group may have been the only member of another
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
