"""All problems of a node inventory, each with its location and a fix."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from torchdeck.config.problems import ConfigError, Problem, dotted, kind, shown
from torchdeck.config.toml.document import KeyPath
from torchdeck.config.values.node_names import RIGHT_HOST, RIGHT_USER, host_fault, user_fault
from torchdeck.nodes.inventory.address import RIGHT_HOP, hop_fault, taken_apart
from torchdeck.nodes.inventory.names import TAG, NodeNamesError, members
from torchdeck.nodes.inventory.schema import INVENTORY_VERSION, NodeEntry, NodeGroup, NodeInventory
from torchdeck.options import Section

LOCALHOST = "localhost"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
"""Name of a node or group: names of nodes are names of folders, too."""
RIGHT_NAME = "letters, digits, `_`, `-` and `.`, at most 64, a letter or digit first"
_SECTIONS: Mapping[str, type[Section]] = {"nodes": NodeEntry, "groups": NodeGroup}
Wrong = tuple[KeyPath, str, str]
"""Location, problem, expected value."""


def problems_of(table: Mapping[str, Any], lines: Mapping[KeyPath, int], file: str) -> list[Problem]:
    """Return all problems in the content of a nodes.toml.

    Args:
        table: the content.
        lines: the line of each key.
        file: file name as shown to the user.
    """
    version = table.get("version")
    if isinstance(version, int) and version > INVENTORY_VERSION:
        newer = f"this file has version {version}, and this Torchdeck reads version {INVENTORY_VERSION}"
        found: list[Wrong] = [(("version",), newer, "a newer Torchdeck")]
    else:
        found = [*_by_schema(table)]
        if not found:
            found = [*_contradictions(NodeInventory.model_validate(table))]
    found.sort(key=lambda wrong: _line(lines, wrong[0]))
    return [Problem(dotted(path), file, _line(lines, path), wrong, right) for path, wrong, right in found]


def made_entry(name: str, values: Mapping[str, Any]) -> NodeEntry:
    """Return the entry of a node called `name` with the given `values`.

    Raises:
        ConfigError: with every problem, by key, without a file.
    """
    problems = problems_of({"nodes": {name: dict(values)}}, {}, "")
    if problems:
        raise ConfigError([replace(problem, line=None) for problem in problems])
    return NodeEntry.model_validate(dict(values))


def _line(lines: Mapping[KeyPath, int], path: KeyPath) -> int:
    """Return the line of a key, or of the innermost enclosing table that has one."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return 1


def _by_schema(table: Mapping[str, Any]) -> Iterator[Wrong]:
    try:
        NodeInventory.model_validate(table)
    except ValidationError as error:
        seen = set()
        for detail in error.errors(include_url=False, include_context=False, include_input=False):
            path = tuple(detail["loc"])
            if path not in seen:
                seen.add(path)
                yield _explained(path, detail, table)


def _explained(path: KeyPath, detail: Mapping[str, Any], table: Mapping[str, Any]) -> Wrong:
    section = _SECTIONS.get(str(path[0])) if len(path) > 2 else None
    fields = (section or NodeInventory).model_fields
    key = str(path[2] if section is not None else path[0])
    if detail["type"] == "missing":
        return path[:-1], f"there is no {key} in it", f"{key} = …: {_right(fields[key])}"
    if detail["type"] == "extra_forbidden":
        from torchdeck.config.spelling import nearest  # it loads the whole run.toml schema

        near = nearest(key, fields)
        right = f"{near[0]}" if near else f"one of {', '.join(fields)}"
        return path, "unknown key", right
    value: Any = table
    for step in path:
        value = value[step]
    right = _right(fields[key]) if key in fields else "a table"
    in_range = ("greater_than", "less_than", "too_short", "too_long", "string_pattern")
    if any(part in detail["type"] for part in in_range):
        return path, f"{shown(value)} is not valid", right
    return path, f"{shown(value)} is {kind(value)}", right


def _right(field: FieldInfo) -> str:
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    if extra.get("right"):
        return str(extra["right"])
    bounds = {type(item).__name__: item for item in field.metadata}
    if "Ge" in bounds and "Le" in bounds:
        return f"a whole number from {bounds['Ge'].ge} to {bounds['Le'].le}"
    return str(field.description)


def _contradictions(node_inventory: NodeInventory) -> Iterator[Wrong]:
    for table, names in (("nodes", node_inventory.nodes), ("groups", node_inventory.groups)):
        for name in names:
            if NAME.fullmatch(name) is None or name == LOCALHOST:
                why = (
                    "this name is reserved for this machine"
                    if name == LOCALHOST
                    else "it is not a valid name"
                )
                yield (table, name), why, RIGHT_NAME
    for name, entry in node_inventory.nodes.items():
        yield from _of_entry(("nodes", name), entry)
    for name in node_inventory.groups:
        if name in node_inventory.nodes:
            yield ("groups", name), "a node already has this name", "a different name"
        try:
            members(node_inventory, name)
        except NodeNamesError as error:
            yield ("groups", name, "nodes"), str(error), "names of nodes and groups that are in this file"


def _names_in_commands(path: KeyPath, entry: NodeEntry) -> Iterator[Wrong]:
    """Yield names that would be more than a name inside a command, such as a ProxyCommand."""
    checked = (
        ("address", entry.address, host_fault, RIGHT_HOST),
        ("user", entry.user, user_fault, RIGHT_USER),
        ("interface", entry.interface, host_fault, 'the name of an interface, such as "eth0"'),
        ("training_address", entry.training_address, host_fault, RIGHT_HOST),
    )
    for key, name, fault_of, right in checked:
        if name is not None and (fault := fault_of(name)):
            yield (*path, key), f"{shown(name)} is not a valid name: {fault}", right
    for index, hop in enumerate(entry.jump):
        if fault := hop_fault(hop):
            yield (*path, "jump", index), f"{shown(hop)} is not a jump host: {fault}", RIGHT_HOP


def _with_port(parts: Mapping[str, Any]) -> str:
    return f"address = {shown(parts['address'])} and port = {parts['port']}"


def _of_entry(path: KeyPath, entry: NodeEntry) -> Iterator[Wrong]:
    parts = taken_apart(entry.address)
    if "port" in parts:
        yield (*path, "address"), f"{shown(entry.address)} has a port in it", _with_port(parts)
    yield from _names_in_commands(path, entry)
    pythons = [key for key in ("python", "venv", "conda") if getattr(entry, key) is not None]
    if len(pythons) > 1:
        yield (*path, pythons[1]), f"{' and '.join(pythons)} each select a Python", "one of them"
    activations = [key for key in ("venv", "conda", "activate") if getattr(entry, key) is not None]
    if "activate" in activations and len(activations) > 1:
        yield (*path, "activate"), f"{activations[0]} activates an environment too", "one of them"
    if entry.devices is not None and len(set(entry.devices)) < len(entry.devices):
        yield (*path, "devices"), "a device is listed twice", "each index once"
    for index, tag in enumerate(entry.tags):
        if NAME.fullmatch(tag) is None:
            yield (
                (*path, "tags", index),
                f"{shown(tag)} is not a valid tag, because {TAG}{tag} could not refer to it",
                RIGHT_NAME,
            )
