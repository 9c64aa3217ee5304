"""`torchdeck runs delete`."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from torchdeck.cli.exit_codes import REFUSED, SUCCEEDED
from torchdeck.cli.run_lookup import ID_HELP, find_run, says_what_is_wrong


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("delete", help="remove a run that is over, and the checkpoints in it")
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


@says_what_is_wrong
def run(args: argparse.Namespace) -> int:
    """Delete; 3 when the run is alive or its folder cannot be removed."""
    from torchdeck.runs.deletion import StillAliveError, delete_run

    layout = find_run(args.id)
    try:
        delete_run(layout)
    except StillAliveError as error:
        print(f"torchdeck: {error}", file=sys.stderr)
        return REFUSED
    except OSError as error:
        print(f"torchdeck: {layout.root} cannot be removed: {error.strerror}", file=sys.stderr)
        return REFUSED
    print(json.dumps({"deleted": layout.root.name}) if args.json else f"deleted {layout.root.name}")
    return SUCCEEDED
