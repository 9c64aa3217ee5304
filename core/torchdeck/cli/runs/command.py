"""`torchdeck runs`: the runs of this home."""

from __future__ import annotations

import argparse
from typing import Any

from torchdeck.cli.runs import control as runs_control
from torchdeck.cli.runs import delete as runs_delete
from torchdeck.cli.runs import listing as runs_list
from torchdeck.cli.runs import logs as runs_logs
from torchdeck.cli.runs import metrics
from torchdeck.cli.runs import pull as runs_pull
from torchdeck.cli.runs import show as runs_show


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its commands to the command line."""
    parser = subparsers.add_parser(
        "runs",
        help="list, show, attach, stop, resume, export, pull and delete runs",
        description="The runs of this Torchdeck home. ID is a run's id, a unique prefix of it, its name, or "
        "`latest`.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    runs_list.add_parser(commands)
    runs_show.add_parser(commands)
    runs_logs.add_parser(commands)
    metrics.add_parser(commands)
    runs_control.add_parsers(commands)
    runs_pull.add_parser(commands)
    runs_delete.add_parser(commands)
