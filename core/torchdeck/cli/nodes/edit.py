"""`torchdeck nodes add`, `edit`, `group` and `remove`: changes to the node inventory."""

from __future__ import annotations

import argparse
import functools
from typing import TYPE_CHECKING, Any

from torchdeck.cli.nodes.lookup import NodesUsageError, inventory_file, says_what_is_wrong
from torchdeck.cli.output import json_text
from torchdeck.nodes.inventory.address import taken_apart

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
WAY = ("address", "port", "user", "key", "jump")
"""Keys that say how a node is reached: where none of them changes, its host key is known as before."""


def add_parsers(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the commands; the options of nodes are those of the schema."""
    add = commands.add_parser("add", help="add a node to the node inventory")
    add.add_argument("name", metavar="NAME", help="name of the node in run files")
    add.add_argument("address", metavar="ADDRESS", help=_help("address"))
    _add_options(add, without=("address",))
    add.set_defaults(handler=run_add)

    edit = commands.add_parser("edit", help="change one or several nodes of the node inventory")
    edit.add_argument("name", metavar="NAME", help="a node, a range such as gpu[1-3], a group, tag:TAG")
    _add_options(edit, without=())
    edit.add_argument(
        "--unset", nargs="+", default=[], metavar="KEY", help="remove keys, such as --unset port"
    )
    edit.set_defaults(handler=run_edit)

    group = commands.add_parser("group", help="give several nodes one name")
    group.add_argument("name", metavar="NAME", help="name of the group")
    group.add_argument("nodes", nargs="+", metavar="NODE", help="a node, a range, another group, tag:TAG")
    group.add_argument("--json", action="store_true", help="print one JSON object")
    group.set_defaults(handler=run_group)

    remove = commands.add_parser("remove", help="remove nodes or groups from the node inventory")
    remove.add_argument("names", nargs="+", metavar="NAME", help="the name of a node or group")
    remove.add_argument("--json", action="store_true", help="print one JSON object")
    remove.set_defaults(handler=run_remove)


@says_what_is_wrong
def run_add(args: argparse.Namespace) -> int:
    """Add a node; 2 when its name is taken or a value will not do."""
    from torchdeck.nodes.inventory.file import change_inventory, read_inventory
    from torchdeck.nodes.inventory.problems import made_entry
    from torchdeck.nodes.inventory.text import with_node

    path = inventory_file()
    if args.name in read_inventory(path).nodes:
        raise NodesUsageError(
            f"there is a node {args.name} already; `torchdeck nodes edit {args.name}` changes it"
        )
    entry = made_entry(args.name, _given(args))
    change_inventory(path, lambda text: with_node(text, args.name, entry))
    return _tell(args, "added", args.name, entry)


@says_what_is_wrong
def run_edit(args: argparse.Namespace) -> int:
    """Change nodes, all or none; 2 if there is none of that name or a value will not do."""
    from torchdeck.nodes.inventory.file import change_inventory, read_inventory
    from torchdeck.nodes.inventory.schema import NodeEntry
    from torchdeck.nodes.inventory.text import with_node

    path = inventory_file()
    before = _nodes(read_inventory(path), args.name)
    unknown = [key for key in args.unset if key not in NodeEntry.model_fields]
    if unknown:
        raise NodesUsageError(f"there is no key {unknown[0]}; there are {', '.join(NodeEntry.model_fields)}")
    given = _given(args)
    if not given and not args.unset:
        raise NodesUsageError(
            f"nothing is said of what to change in {args.name}; `torchdeck nodes edit --help` has the options"
        )
    if "address" in given and len(before) > 1:
        raise NodesUsageError(
            f"{args.name} names {len(before)} nodes, which cannot share the address {given['address']}; "
            "change the addresses one by one"
        )
    after = {name: _changed(name, entry, given, args.unset) for name, entry in before.items()}
    change_inventory(
        path, lambda text: functools.reduce(lambda so_far, new: with_node(so_far, *new), after.items(), text)
    )
    if args.json and len(after) > 1:
        print(json_text({"nodes": [_as_json(name, entry) for name, entry in after.items()]}))
        return 0
    for name, entry in after.items():
        _tell(args, "changed", name, entry, before[name])
    return 0


@says_what_is_wrong
def run_group(args: argparse.Namespace) -> int:
    """Make or replace a group; 2 when a name leads to no node."""
    from torchdeck.nodes.inventory.file import change_inventory
    from torchdeck.nodes.inventory.names import named_nodes
    from torchdeck.nodes.inventory.schema import NodeGroup
    from torchdeck.nodes.inventory.text import with_group

    node_inventory = change_inventory(
        inventory_file(), lambda text: with_group(text, args.name, NodeGroup(nodes=args.nodes))
    )
    nodes = named_nodes(node_inventory, [args.name])
    if args.json:
        print(json_text({"group": args.name, "nodes": nodes}))
    else:
        print(f"{args.name} is {', '.join(nodes)}")
    return 0


@says_what_is_wrong
def run_remove(args: argparse.Namespace) -> int:
    """Remove nodes and groups, nodes out of their groups too; 2 when one is not there."""
    from torchdeck.nodes.inventory.file import change_inventory, read_inventory
    from torchdeck.nodes.inventory.text import without

    path = inventory_file()
    node_inventory = read_inventory(path)
    for name in args.names:
        if name not in node_inventory.nodes and name not in node_inventory.groups:
            there = ", ".join([*node_inventory.nodes, *node_inventory.groups])
            raise NodesUsageError(f"there is no node or group {name} to remove; there is {there or 'none'}")
    change_inventory(path, lambda text: without(text, node_inventory, args.names))
    print(json_text({"removed": args.names}) if args.json else f"removed {', '.join(args.names)}")
    return 0


def _nodes(node_inventory: NodeInventory, text: str) -> dict[str, NodeEntry]:
    """The nodes that `text` names, by name."""
    from torchdeck.nodes.inventory.names import NodeNamesError, named_nodes

    try:
        return {name: node_inventory.nodes[name] for name in named_nodes(node_inventory, [text])}
    except NodeNamesError as error:
        sentence = str(error)
        told = (
            sentence
            if "did you mean" in sentence
            else f"{sentence}; `torchdeck nodes list` shows what there is"
        )
        raise NodesUsageError(told) from error


def _changed(name: str, entry: NodeEntry, given: dict[str, Any], unset: list[str]) -> NodeEntry:
    from torchdeck.nodes.inventory.problems import made_entry

    values = {**entry.model_dump(exclude_defaults=True), **given}
    return made_entry(name, {key: value for key, value in values.items() if key not in unset})


def _add_options(parser: argparse.ArgumentParser, without: tuple[str, ...]) -> None:
    from torchdeck.nodes.inventory.schema import NodeEntry

    for name, field in NodeEntry.model_fields.items():
        if name in without:
            continue
        option = f"--{name.replace('_', '-')}"
        many = "list" in str(field.annotation)
        metavar = "N" if _type(field) is int else (name.removesuffix("s") if many else name).upper()
        shape: dict[str, Any] = {"nargs": "+"} if many else {}
        parser.add_argument(
            option,
            dest=f"key_{name}",
            default=None,
            type=_type(field),
            metavar=metavar,
            help=_help(name),
            **shape,
        )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _type(field: FieldInfo) -> type[int | str]:
    return int if "int" in str(field.annotation) else str


def _help(name: str) -> str:
    from torchdeck.nodes.inventory.schema import NodeEntry

    text = str(NodeEntry.model_fields[name].description)
    begin = text[:1] if text[:2].isupper() else text[:1].lower()
    return (begin + text[1:].rstrip(".")).replace("%", "%%")


def _given(args: argparse.Namespace) -> dict[str, Any]:
    """Return the command line's values of the node, by key; an ssh-style address is split."""
    options = {key[4:]: value for key, value in vars(args).items() if key.startswith("key_")}
    said = {"address": getattr(args, "address", None), **options}
    said = {key: value for key, value in said.items() if value is not None}
    parts = taken_apart(said["address"]) if "address" in said else {}
    for key in ("user", "port"):
        if key in parts and key in said and parts[key] != said[key]:
            raise NodesUsageError(f"{said['address']} says {key} {parts[key]}, and --{key} says {said[key]}")
    return {**said, **parts}


def _as_json(name: str, entry: NodeEntry) -> dict[str, Any]:
    return {"node": name, **entry.model_dump()}


def _tell(
    args: argparse.Namespace, done: str, name: str, entry: NodeEntry, before: NodeEntry | None = None
) -> int:
    if args.json:
        print(json_text(_as_json(name, entry)))
    elif before == entry:
        print(f"{name} is so already")
    elif before is not None and all(getattr(before, key) == getattr(entry, key) for key in WAY):
        print(f"{done} {name}")
    else:
        print(f"{done} {name}; `torchdeck nodes trust {name}` connects to it and shows its host key")
    return 0
