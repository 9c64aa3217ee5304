"""`torchdeck runs list`."""

from __future__ import annotations

import argparse
import time
from itertools import islice
from typing import Any

from torchdeck.cli.output import json_text
from torchdeck.cli.runs.fencing import keep_fencing
from torchdeck.cli.runs.lookup import registry, says_what_is_wrong, whole_number
from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import duration, moment
from torchdeck.runs import reasons
from torchdeck.runs.registry import UnreadableRun
from torchdeck.runs.state import RunState
from torchdeck.runs.view import RunView

HEADINGS = ("ID", "NAME", "STATE", "STARTED", "TOOK", "STEP")
UNREADABLE = "UNREADABLE"
STATES = (*(state.value for state in RunState), UNREADABLE)
UNFOLLOWED = "?"
"""Shown after the state of a run without a controller here: the state is as old as the last report."""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("list", help="list runs and their states, the newest first")
    parser.add_argument("--limit", type=whole_number, metavar="N", help="at most N runs, the newest")
    parser.add_argument(
        "--state",
        type=str.upper,
        choices=STATES,
        metavar="STATE",
        help=f"only runs in a state: {', '.join(STATES)}",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.set_defaults(handler=run)


@says_what_is_wrong
def run(args: argparse.Namespace) -> int:
    """Print every run."""
    runs = registry()
    wanted = (item for item in runs.newest_first() if args.state in (None, _state(item)))
    found = list(islice(wanted, args.limit))
    for item in found:
        if isinstance(item, RunView):
            keep_fencing(RunLayout(runs.folder / item.id), item)
    if args.json:
        print(json_text([_row(item) for item in found], indent=1))
        return 0
    if not found:
        if runs.ids():
            print("no run is shown" if args.state is None else f"no run is {args.state}")
        else:
            print("there are no runs yet; `torchdeck init` writes a first run.toml")
        return 0
    rows = [HEADINGS, *(_cells(item) for item in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    now = time.time()
    for item in found:
        if isinstance(item, RunView) and item.followed_until is not None:
            what = reasons.unfollowed(now - item.followed_until)
            print(f"{UNFOLLOWED} {item.id}: {what} (torchdeck runs attach {item.id})")
    return 0


def _state(item: RunView | UnreadableRun) -> str:
    return UNREADABLE if isinstance(item, UnreadableRun) else item.state.value


def _row(item: RunView | UnreadableRun) -> dict[str, Any]:
    if isinstance(item, UnreadableRun):
        nothing = dict.fromkeys(("name", "created", "started", "ended"))
        return {"id": item.id, **nothing, "state": UNREADABLE, "why": item.why}
    step = _step(item)
    return {
        "id": item.id,
        "name": item.name,
        "state": item.state.value,
        "why": item.why,
        "created": item.created,
        "started": item.started,
        "ended": item.ended,
        "attempt": item.attempt,
        "world_size": item.world_size,
        "target": item.target,
        "step": step,
        "resumable": item.resumable,
        "followed_until": item.followed_until,
    }


def _cells(item: RunView | UnreadableRun) -> tuple[str, ...]:
    if isinstance(item, UnreadableRun):
        return item.id, "-", UNREADABLE, item.why, "", ""
    took = duration(item.ended - item.started) if item.ended and item.started else "-"
    step = _step(item)
    shown = "-" if step is None else str(step)
    state = item.state.value if item.followed_until is None else f"{item.state.value}{UNFOLLOWED}"
    return item.id, item.name, state, moment(item.started), took, shown


def _step(item: RunView) -> int | None:
    """Return the step of rank 0; for a run that is over, that of its last checkpoint."""
    if item.ranks and item.ranks[0].step is not None:
        return item.ranks[0].step
    return item.checkpoint.step if item.checkpoint is not None else None
