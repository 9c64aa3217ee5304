"""`torchdeck queue`: runs that start when devices are free."""

from __future__ import annotations

import argparse
from typing import Any

from torchdeck.cli.queue import add as queue_add
from torchdeck.cli.queue import changes as queue_changes
from torchdeck.cli.queue import listing as queue_list
from torchdeck.cli.queue import serve as queue_serve

DESCRIPTION = """\
Runs of this Torchdeck home that start by themselves when devices are free. `torchdeck queue serve` starts
them, and must run on the machine with the home. ID is the id of an entry, such as q7.
"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its commands to the command line."""
    parser = subparsers.add_parser(
        "queue", help="add, list, edit, move, pause, resume, remove; limit, serve", description=DESCRIPTION
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    queue_add.add_parsers(commands)
    queue_list.add_parser(commands)
    queue_changes.add_parsers(commands)
    queue_serve.add_parser(commands)
