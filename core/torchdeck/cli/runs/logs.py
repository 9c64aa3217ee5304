"""`torchdeck runs logs`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from torchdeck.cli.output import USAGE, json_text, write_log_line
from torchdeck.cli.runs.lookup import ID_HELP, find_run, says_what_is_wrong
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.follower import RunFollower
from torchdeck.runs.output import OutputFollower, OutputLine

POLL = 0.2


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("logs", help="show the output of ranks, in all attempts")
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument("--rank", type=int, metavar="R", help="only this rank, without its number in front")
    parser.add_argument("--stderr", action="store_true", help="standard error, not standard output")
    parser.add_argument("--follow", action="store_true", help="continue until the run is over")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.set_defaults(handler=run)


@says_what_is_wrong
def run(args: argparse.Namespace) -> int:
    """Print lines of ranks; 2 if there is no such rank."""
    layout = find_run(args.id)
    wrong = _no_such_rank(layout, args.rank)
    if wrong is not None:
        print(f"torchdeck: {wrong}", file=sys.stderr)
        return USAGE
    output = OutputFollower(layout, streams=("stderr" if args.stderr else "stdout",), rank=args.rank)
    bare = args.rank is not None
    if args.follow:
        from torchdeck.contract.refusal import Refusal
        from torchdeck.use_cases.kept_controller import KeptController

        follower = RunFollower(layout)
        kept = KeptController(layout)
        while not (view := follower.refresh()).is_over:
            with suppress(Refusal):  # it is tried again
                kept.look(view)
            _print(output.read_new(), bare=bare, as_json=args.json)
            sys.stdout.flush()
            time.sleep(POLL)
    _print(output.read_rest(), bare=bare, as_json=args.json)
    return 0


def _no_such_rank(layout: RunLayout, rank: int | None) -> str | None:
    world_size = RunFollower(layout).refresh().world_size
    if rank is None or world_size is None or 0 <= rank < world_size:
        return None
    return f"there is no rank {rank}: the run has ranks 0 to {world_size - 1}"


def _print(lines: Iterable[OutputLine], *, bare: bool, as_json: bool) -> None:
    for line in lines:
        if as_json:
            print(json_text(asdict(line)))
        else:
            write_log_line("" if bare else f"[rank {line.rank}] ", line.text, sys.stdout)
