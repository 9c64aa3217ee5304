"""`torchdeck runs shell`."""

from __future__ import annotations

import argparse
from typing import Any

from torchdeck.cli.nodes.command_errors import reports_refusals
from torchdeck.cli.runs.chosen_run import ID_HELP, find_run
from torchdeck.cli.started_shell import add_options, start_shell


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "shell",
        help="start a shell in the folder and Python environment of a run, on its node",
        description="Start your shell in the folder of a run, with its Python first on PATH, on its first "
        "node or on NODE. Other nodes are reached by ssh, with the settings of the node inventory.",
    )
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("--node", metavar="NODE", help="another node of the run")
    add_options(parser)
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Start it; the exit code is the shell's, 2 if there is no such run, 3 if its node cannot be used."""
    from torchdeck.use_cases.opening.programs import Programs
    from torchdeck.use_cases.opening.shell import run_shell

    return start_shell(args, run_shell(find_run(args.id), args.node, Programs()))
