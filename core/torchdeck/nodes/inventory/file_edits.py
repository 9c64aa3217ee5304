"""Edits of a nodes.toml: a node or group is set or removed, and every other byte is kept."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchdeck.config.toml.document import KeyPath, scan
from torchdeck.config.toml.edit import remove_table, remove_value, set_value
from torchdeck.nodes.inventory.schema import INVENTORY_VERSION, NodeEntry, NodeGroup, NodeInventory
from torchdeck.options import Section


def with_node(text: str, name: str, entry: NodeEntry) -> str:
    """Return the text with the node set to `entry`.

    Raises:
        EditError: the text is not TOML, or cannot be changed this way.
    """
    return _with_table(text, ("nodes", name), entry)


def without_node(text: str, name: str) -> str:
    """Return the text without the node. Raises EditError."""
    return _without_table(text, ("nodes", name))


def with_group(text: str, name: str, group: NodeGroup) -> str:
    """Return the text with the group set to `group`. Raises EditError."""
    return _with_table(text, ("groups", name), group)


def without_group(text: str, name: str) -> str:
    """Return the text without the group. Raises EditError."""
    return _without_table(text, ("groups", name))


def _with_table(text: str, path: KeyPath, section: Section) -> str:
    if not text.strip():
        text = f"version = {INVENTORY_VERSION}\n{text}"
    wanted = section.model_dump(exclude_defaults=True)
    present = _table(text, path)
    for key in present:
        if key not in wanted:
            text = remove_value(text, (*path, key))
    for key, value in wanted.items():
        if key not in present or present[key] != value:
            text = set_value(text, (*path, key), value)
    return text


def _without_table(text: str, path: KeyPath) -> str:
    if scan(text).entry(path) is not None:  # an inline table
        return remove_value(text, path)
    table = _table(text, path)
    for leaf in _leaves(table, path):  # dotted keys and inline tables have no heading to remove
        text = remove_value(text, leaf)
    return remove_table(text, path)


def _table(text: str, path: KeyPath) -> Mapping[str, Any]:
    table: Any = tomllib.loads(text)
    for key in path:
        table = table.get(key, {}) if isinstance(table, dict) else {}
    return table if isinstance(table, dict) else {}


def _leaves(table: Mapping[str, Any], path: KeyPath) -> Iterator[KeyPath]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key)


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
