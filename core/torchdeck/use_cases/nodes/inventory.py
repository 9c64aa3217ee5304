"""Reads and changes the node inventory; every change is atomic and leaves it valid.

All functions raise ConfigError if the inventory is invalid or would be, TimeoutError if another
process has been changing it for too long, and OSError if it cannot be written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.nodes.inventory.address import taken_apart
from torchdeck.nodes.inventory.file import change_inventory, inventory_path, parse_inventory, read_inventory
from torchdeck.nodes.inventory.file_edits import with_group, with_node, without
from torchdeck.nodes.inventory.names import NodeNamesError, named_nodes
from torchdeck.nodes.inventory.problems import made_entry
from torchdeck.nodes.inventory.schema import NodeEntry, NodeGroup, NodeInventory
from torchdeck.use_cases.nodes.chosen import NodesUsageError


class NodeList(NamedTuple):
    """Content of the inventory."""

    file: Path
    nodes: Mapping[str, NodeEntry]
    """Requested nodes, by name."""
    groups: Mapping[str, list[str]]
    """Nodes of each group."""
    is_empty: bool
    """The inventory has no node at all."""


class Edited(NamedTuple):
    """One changed node."""

    before: NodeEntry
    after: NodeEntry


class Removed(NamedTuple):
    """State needed to undo a removal."""

    names: tuple[str, ...]
    before: str
    """Text of the inventory before the removal."""
    after: str


def list_nodes(home: Path, asked: Sequence[str] = ()) -> NodeList:
    """Return the nodes that `asked` names (default: all), and all groups. Raises NodeNamesError."""
    path = inventory_path(home)
    inventory = read_inventory(path)
    names = named_nodes(inventory, asked) if asked else list(inventory.nodes)
    groups = {name: named_nodes(inventory, [name]) for name in inventory.groups}
    nodes = {name: inventory.nodes[name] for name in names}
    return NodeList(path, nodes, groups, is_empty=not inventory.nodes)


def add_node(home: Path, name: str, values: Mapping[str, Any]) -> NodeEntry:
    """Add a node.

    Args:
        home: TORCHDECK_HOME.
        name: name of the node.
        values: values by key; the address may be `user@host:port`.

    Raises:
        NodesUsageError: there is a node of that name, or the address contradicts a value.
    """
    entry = made_entry(name, _with_parts(values))

    def add(text: str) -> str:
        if name in parse_inventory(text, str(inventory_path(home))).nodes:
            fix = f"`torchdeck nodes edit {name}` changes it"
            raise NodesUsageError(f"node {name} already exists", fix=fix)
        return with_node(text, name, entry)

    change_inventory(inventory_path(home), add)
    return entry


def replace_node(home: Path, name: str, entry: NodeEntry) -> None:
    """Replace the entry of a node."""
    change_inventory(inventory_path(home), lambda text: with_node(text, name, entry))


def use_python(home: Path, name: str, executable: str) -> None:
    """Make `executable` the Python of a node, in place of a virtual or conda environment.

    Raises:
        NodesUsageError: there is no such node.
    """
    edit_nodes(home, name, {"python": executable}, ("venv", "conda"))


def edit_nodes(
    home: Path, asked: str, values: Mapping[str, Any], unset: Sequence[str] = ()
) -> dict[str, Edited]:
    """Change all nodes that `asked` names, or none.

    Args:
        home: TORCHDECK_HOME.
        asked: a node, a range, a group or a tag.
        values: new values by key; an address may be `user@host:port`.
        unset: keys to remove.

    Raises:
        NodesUsageError: there is no such node or key, nothing to change, or one address for several nodes.
    """
    given = _with_parts(values)
    _check_edit(asked, given, unset)
    edited: dict[str, Edited] = {}

    def edit(text: str) -> str:
        before = _nodes(parse_inventory(text, str(inventory_path(home))), asked)
        if "address" in given and len(before) > 1:
            what = f"{asked} names {len(before)} nodes, which cannot share the address {given['address']}"
            raise NodesUsageError(what, fix="change the addresses one by one")
        for name, entry in before.items():
            merged = {**entry.model_dump(exclude_defaults=True), **given}
            after = made_entry(name, {key: value for key, value in merged.items() if key not in unset})
            edited[name] = Edited(entry, after)
            text = with_node(text, name, after)
        return text

    change_inventory(inventory_path(home), edit)
    return edited


def group_nodes(home: Path, name: str, nodes: Sequence[str]) -> list[str]:
    """Make or replace a group; return the nodes that it leads to."""
    group = NodeGroup(nodes=list(nodes))
    inventory = change_inventory(inventory_path(home), lambda text: with_group(text, name, group))
    return named_nodes(inventory, [name])


def remove_nodes(home: Path, names: Sequence[str]) -> Removed:
    """Remove nodes and groups, and the nodes from their groups. Raises NodesUsageError."""
    texts: list[str] = []

    def remove(text: str) -> str:
        inventory = parse_inventory(text, str(inventory_path(home)))
        there = [*inventory.nodes, *inventory.groups]
        for name in names:
            if name not in there:
                fix = f"there is {', '.join(there) or 'none'}"
                raise NodesUsageError(f"there is no node or group {name} to remove", fix=fix)
        texts[:] = text, without(text, inventory, names)
        return texts[1]

    change_inventory(inventory_path(home), remove)
    return Removed(tuple(names), *texts)


def restore_nodes(home: Path, removed: Removed) -> None:
    """Undo a removal of nodes: restore the whole text if it has not changed since, else only the nodes."""
    path = inventory_path(home)

    def restore(text: str) -> str:
        if text == removed.after:
            return removed.before
        before = parse_inventory(removed.before, str(path)).nodes
        for name in removed.names:
            text = with_node(text, name, before[name])
        return text

    change_inventory(path, restore)


def _with_parts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with user and port taken out of an ssh-style address."""
    parts = taken_apart(values["address"]) if "address" in values else {}
    for key in ("user", "port"):
        if key in parts and key in values and parts[key] != values[key]:
            what = f"{values['address']} says {key} {parts[key]}, and --{key} says {values[key]}"
            raise NodesUsageError(what)
    return {**values, **parts}


def _check_edit(asked: str, given: Mapping[str, Any], unset: Sequence[str]) -> None:
    for key in unset:
        if key not in NodeEntry.model_fields:
            there = f"there are {', '.join(NodeEntry.model_fields)}"
            raise NodesUsageError(f"there is no key {key}", fix=there)
    if not given and not unset:
        what = f"no change to {asked} is given"
        raise NodesUsageError(what, fix="`torchdeck nodes edit --help` lists the options")


def _nodes(inventory: NodeInventory, asked: str) -> dict[str, NodeEntry]:
    try:
        return {name: inventory.nodes[name] for name in named_nodes(inventory, [asked])}
    except NodeNamesError as error:
        fix = "" if "did you mean" in error.what else "`torchdeck nodes list` shows what there is"
        raise NodesUsageError(error.what, fix=fix) from error
