"""`torchdeck nodes list`: what the node inventory says."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torchdeck.cli.console import bare_table, filled_columns, fitting, print_table, room
from torchdeck.cli.nodes.command_errors import nodes_home, reports_refusals
from torchdeck.cli.output import json_text

if TYPE_CHECKING:
    from torchdeck.nodes.inventory.schema import NodeEntry

HEADINGS = ("NAME", "ADDRESS", "THROUGH", "PYTHON", "DEVICES", "TRAINING", "TAGS")
BY_WEIGHT = ("NAME", "ADDRESS", "PYTHON", "DEVICES", "TAGS", "THROUGH", "TRAINING")
"""Which columns stay where a terminal is narrow."""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("list", help="show the node inventory; contacts no node")
    parser.add_argument("nodes", nargs="*", metavar="NODE", help="only these nodes")
    parser.add_argument("--json", action="store_true", help="print one JSON object, with all keys")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Print the nodes and groups; 2 when a name leads to no node or the inventory is damaged."""
    from torchdeck.use_cases.nodes.inventory import list_nodes

    found = list_nodes(nodes_home(), args.nodes)
    if args.json:
        nodes = [{"name": name, **entry.model_dump()} for name, entry in found.nodes.items()]
        print(json_text({"file": str(found.file), "nodes": nodes, "groups": found.groups}, indent=1))
        return 0
    if found.is_empty:
        print("there are no nodes yet; `torchdeck nodes add NAME ADDRESS` adds one, and")
        print("`torchdeck nodes import` shows the hosts of ~/.ssh/config")
        return 0
    _print_table(found.nodes)
    if not args.nodes:
        for name, members in found.groups.items():
            print(f"group {name}: {', '.join(members)}")
    return 0


def _print_table(nodes: Mapping[str, NodeEntry]) -> None:
    from rich.text import Text

    from torchdeck.cli.console import make_console

    console = make_console()
    width = room(console)
    rows = [(name, *_cells(entry)) for name, entry in nodes.items()]
    if width is not None:
        python = HEADINGS.index("PYTHON")
        rows = [(*row[:python], _tail(row[python], width // 3), *row[python + 1 :]) for row in rows]
    kept = fitting(HEADINGS, rows, BY_WEIGHT, width)
    table = bare_table([HEADINGS[at] for at in kept])
    for row in rows:
        table.add_row(*(Text(row[at], style="" if at else "bold") for at in kept))
    print_table(console, table)
    left = [HEADINGS[at] for at in filled_columns(HEADINGS, rows) if at not in kept]
    if left:
        hint = f"no room for {', '.join(left)}: `torchdeck nodes list --json` has all keys"
        console.print(hint, style="dim", soft_wrap=True)


def _tail(text: str, most: int) -> str:
    """The end of a path says more than its beginning."""
    return text if len(text) <= most else f"…{text[1 - most :]}"


def _cells(entry: NodeEntry) -> tuple[str, ...]:
    user = f"{entry.user}@" if entry.user else ""
    port = f":{entry.port}" if entry.port else ""
    devices = "all" if entry.devices is None else ", ".join(map(str, entry.devices)) or "none"
    training = " ".join(part for part in (entry.training_address, entry.interface) if part)
    return (
        f"{user}{entry.address}{port}",
        " → ".join(entry.jump) or "-",
        _python(entry),
        devices,
        training or "-",
        ", ".join(entry.tags) or "-",
    )


def _python(entry: NodeEntry) -> str:
    if entry.venv or entry.python:
        return str(entry.venv or entry.python)
    if entry.conda:
        return f"conda {entry.conda}"
    return f". {entry.activate}" if entry.activate else "python3"
