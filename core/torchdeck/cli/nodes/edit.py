"""`torchdeck nodes add`, `edit`, `group` and `remove`: changes to the node inventory."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from torchdeck.cli.nodes.command_errors import nodes_home, reports_refusals
from torchdeck.cli.output import json_text

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from torchdeck.nodes.inventory.schema import NodeEntry
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


@reports_refusals
def run_add(args: argparse.Namespace) -> int:
    """Add a node; 2 when its name is taken or a value is not valid."""
    from torchdeck.use_cases.nodes.inventory import add_node

    return _tell(args, "added", args.name, add_node(nodes_home(), args.name, _given(args)))


@reports_refusals
def run_edit(args: argparse.Namespace) -> int:
    """Change nodes, all or none; 2 if there is none of that name or a value is not valid."""
    from torchdeck.use_cases.nodes.inventory import edit_nodes

    edited = edit_nodes(nodes_home(), args.name, _given(args), args.unset)
    if args.json and len(edited) > 1:
        print(json_text({"nodes": [_as_json(name, entry.after) for name, entry in edited.items()]}))
        return 0
    for name, entry in edited.items():
        _tell(args, "changed", name, entry.after, entry.before)
    return 0


@reports_refusals
def run_group(args: argparse.Namespace) -> int:
    """Make or replace a group; 2 when a name leads to no node."""
    from torchdeck.use_cases.nodes.inventory import group_nodes

    nodes = group_nodes(nodes_home(), args.name, args.nodes)
    if args.json:
        print(json_text({"group": args.name, "nodes": nodes}))
    else:
        print(f"{args.name} is {', '.join(nodes)}")
    return 0


@reports_refusals
def run_remove(args: argparse.Namespace) -> int:
    """Remove nodes and groups, nodes out of their groups too; 2 when one is not there."""
    from torchdeck.use_cases.nodes.inventory import remove_nodes

    remove_nodes(nodes_home(), args.names)
    print(json_text({"removed": args.names}) if args.json else f"removed {', '.join(args.names)}")
    return 0


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
    """Return the command line's values of the node, by key."""
    options = {key[4:]: value for key, value in vars(args).items() if key.startswith("key_")}
    said = {"address": getattr(args, "address", None), **options}
    return {key: value for key, value in said.items() if value is not None}


def _as_json(name: str, entry: NodeEntry) -> dict[str, Any]:
    return {"node": name, **entry.model_dump()}


def _tell(
    args: argparse.Namespace, done: str, name: str, entry: NodeEntry, before: NodeEntry | None = None
) -> int:
    if args.json:
        print(json_text(_as_json(name, entry)))
    elif before == entry:
        print(f"{name} is unchanged")
    elif before is not None and all(getattr(before, key) == getattr(entry, key) for key in WAY):
        print(f"{done} {name}")
    else:
        print(f"{done} {name}; `torchdeck nodes trust {name}` connects to it and shows its host key")
    return 0
