"""`torchdeck nodes import`: hosts of the SSH config become nodes."""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.cli.nodes.command_errors import nodes_home, reports_refusals
from torchdeck.cli.output import json_text

if TYPE_CHECKING:
    from torchdeck.use_cases.nodes.import_hosts import ConfigHost


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "import",
        help="add hosts of ~/.ssh/config to the node inventory",
        description="Without HOST: shows the hosts of the SSH config. An imported node's address is the Host "
        "of ~/.ssh/config, so everything under it there (IdentityFile, ProxyCommand, ...) still "
        "applies. From another file the host's address, user, port, key and jump hosts are "
        "copied.",
    )
    parser.add_argument(
        "hosts", nargs="*", metavar="HOST", help="a Host of the file, or a pattern of them (gpu*)"
    )
    parser.add_argument("--all", action="store_true", help="all hosts of the file, without Host patterns")
    parser.add_argument("--file", metavar="PATH", help="look for hosts in this file instead of ~/.ssh/config")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Show or import; 2 when a host is not in the file. Nodes of the inventory stay as they are."""
    from torchdeck.use_cases.nodes.chosen import NodesUsageError
    from torchdeck.use_cases.nodes.import_hosts import find_hosts, import_hosts
    from torchdeck.use_cases.nodes.inventory import list_nodes

    home = nodes_home()
    file = Path(args.file or "~/.ssh/config").expanduser()
    found = find_hosts(file, home)
    for asked in args.hosts:
        if not any(_is_named(host.name, [asked]) for host in found):
            fix = "`torchdeck nodes import` shows what it has"
            raise NodesUsageError(f"{file} has no Host {asked}", fix=fix)
    if not args.all and not args.hosts:
        return _show(args, file, found, set(list_nodes(home).nodes))
    chosen = found if args.all else [host for host in found if _is_named(host.name, args.hosts)]
    imported = import_hosts(chosen, home)
    return _tell(args, imported, [host for host in chosen if host.name not in imported])


def _is_named(name: str, asked: list[str]) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in asked)


def _show(args: argparse.Namespace, file: Path, found: list[ConfigHost], present: set[str]) -> int:
    if args.json:
        hosts = [
            {
                "host": host.name,
                "where": host.where,
                "node": host.name in present,
                "possible": host.entry is not None,
            }
            for host in found
        ]
        print(json_text({"file": str(file), "hosts": hosts}, indent=1))
        return 0
    if not found:
        print(f"{file} has no Host entry without wildcards; patterns are not imported")
        return 0
    width = max(len(host.name) for host in found)
    for host in found:
        note = "   (is in the node inventory)" if host.name in present else ""
        print(f"{host.name.ljust(width)}  {host.where}{note}")
    print("`torchdeck nodes import HOST ...` adds some to the node inventory, `--all` all")
    return 0


def _tell(args: argparse.Namespace, imported: list[str], left: list[ConfigHost]) -> int:
    if args.json:
        print(json_text({"imported": imported, "left": [host.name for host in left]}))
        return 0
    for host in left:
        why = "is already in the node inventory" if host.entry is not None else host.where
        print(f"torchdeck: {host.name} {why}", file=sys.stderr)
    print(f"imported {', '.join(imported)}" if imported else "nothing was imported")
    return 0
