"""`torchdeck nodes shell`."""

from __future__ import annotations

import argparse
from typing import Any

from torchdeck.cli.nodes.command_errors import nodes_home, reports_refusals
from torchdeck.cli.started_shell import add_options, start_shell


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "shell",
        help="start a shell on a node, in its Python environment",
        description="Start your shell on a node by ssh, with the settings of the node inventory and in the "
        "Python environment that it names. localhost is this machine.",
    )
    parser.add_argument("node", metavar="NODE", help="a node's name")
    add_options(parser)
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Start it; the exit code is the shell's, 2 or 3 if the node cannot be used."""
    from torchdeck.use_cases.opening.programs import Programs
    from torchdeck.use_cases.opening.shell import node_shell

    return start_shell(args, node_shell(args.node, nodes_home(), Programs()))
