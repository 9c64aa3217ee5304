"""`torchdeck mcp`: a Model Context Protocol server over standard input and output."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from importlib.util import find_spec
from typing import Any

from torchdeck.cli.output import SUCCEEDED, unguarded
from torchdeck.cli.refusals import report
from torchdeck.contract.refusal import Refusal


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "mcp",
        help="let an assistant read runs (Model Context Protocol)",
        description="Serves the runs of this home over standard input and output, for assistants that speak "
        "the Model Context Protocol: list and show runs, read windows of logs and metrics, compare, stacks, "
        "plan and check a run file. It ends when its input does. Needs torchdeck[mcp].",
    )
    parser.add_argument(
        "--allow-start", action="store_true", help="offer tools that start, resume and stop runs, too"
    )
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Serve until the input ends; 3 if the package `mcp` is not installed."""
    if find_spec("mcp") is None:
        return report(
            Refusal(
                "the package mcp is not installed",
                "torchdeck mcp serves with it",
                fix="pip install 'torchdeck[mcp]'",
            ),
            command="torchdeck mcp",
        )
    from torchdeck.cli.mcp.mcp_server import make_server

    with redirect_stdout(unguarded(sys.stdout)):  # its bytes are the protocol's
        make_server(allow_start=args.allow_start).run("stdio")
    return SUCCEEDED
