"""Edits of a nodes.toml: a node or group is set or removed, and every other byte is kept."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from torchdeck.config.toml.document import KeyPath, scan
from torchdeck.config.toml.edit import remove_table, remove_value, set_value
from torchdeck.nodes.inventory.schema import INVENTORY_VERSION, NodeEntry, NodeGroup
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
