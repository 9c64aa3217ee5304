"""`torchdeck nodes`: the machines that runs may use."""

from __future__ import annotations

import argparse
from typing import Any

from torchdeck.cli.nodes import clean as nodes_clean
from torchdeck.cli.nodes import edit as nodes_edit
from torchdeck.cli.nodes import end as nodes_end
from torchdeck.cli.nodes import free as nodes_free
from torchdeck.cli.nodes import gpus as nodes_gpus
from torchdeck.cli.nodes import host_keys as nodes_trust
from torchdeck.cli.nodes import import_hosts as nodes_import
from torchdeck.cli.nodes import listing as nodes_list
from torchdeck.cli.nodes import monitor as nodes_monitor
from torchdeck.cli.nodes import probe as nodes_probe
from torchdeck.cli.nodes import shell as nodes_shell


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its commands to the command line."""
    parser = subparsers.add_parser(
        "nodes",
        help="list, add, edit, import, trust, probe, monitor and clean nodes; who holds which GPU",
        description="The node inventory, nodes.toml in Torchdeck's home. NODE is a node's name, a group, a "
        "range such as gpu[0-3], or tag:TAG.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    nodes_list.add_parser(commands)
    nodes_edit.add_parsers(commands)
    nodes_import.add_parser(commands)
    nodes_trust.add_parser(commands)
    nodes_probe.add_parser(commands)
    nodes_monitor.add_parser(commands)
    nodes_gpus.add_parser(commands)
    nodes_end.add_parser(commands)
    nodes_free.add_parser(commands)
    nodes_clean.add_parser(commands)
    nodes_shell.add_parser(commands)
