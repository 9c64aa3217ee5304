"""`torchdeck queue list`."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from torchdeck.cli.output import SUCCEEDED, json_text
from torchdeck.cli.refusals import reports_refusals
from torchdeck.quantities import duration
from torchdeck.runs.home import torchdeck_home

if TYPE_CHECKING:
    from torchdeck.use_cases.queue.listing import ListedEntry, QueueListing

HEADINGS = ("ID", "NAME", "STATE", "PRIORITY", "START", "NEEDS", "RUN", "WHY")
BY_WEIGHT = ("ID", "STATE", "WHY", "NAME", "START", "RUN", "NEEDS", "PRIORITY")
"""Columns that stay if a terminal is narrow."""
SHOWN_ENDED = 10
"""Newest ended entries that are shown without --all."""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "list",
        help="show entries in their order, with why each waits",
        description="Show running entries, waiting ones in their order, and the newest ended ones. START is "
        "an estimate from the lengths of earlier runs with the same name; it decides nothing.",
    )
    parser.add_argument("--all", action="store_true", help="show all ended entries that are still known")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Print the queue."""
    from torchdeck.use_cases.queue.listing import list_queue

    found = list_queue(torchdeck_home())
    ended = [each for each in found.entries if each.entry.is_over]
    hidden = {each.entry.id for each in ended[:-SHOWN_ENDED]} if not args.all else set()
    entries = [each for each in found.entries if each.entry.id not in hidden]
    if args.json:
        print(json_text(_document(found, entries), indent=1))
        return SUCCEEDED
    if entries:
        _print_table(entries)
    else:
        print("the queue is empty; `torchdeck queue add RUN.toml` adds a run")
    for problem in found.problems:
        print(f"torchdeck: warning: {problem}", file=sys.stderr)
    if entries and not found.server.is_running:
        print("torchdeck: no server runs: `torchdeck queue serve` starts what is queued", file=sys.stderr)
    return SUCCEEDED


def _document(found: QueueListing, entries: list[ListedEntry]) -> dict[str, Any]:
    limits = found.limits
    return {
        "entries": [each.to_json() for each in entries],
        "server": {"running": found.server.is_running},
        "limits": {
            "slots": dict(limits.slots),
            "default_slots": limits.default_slots,
            "per_user": limits.per_user,
            "per_tag": dict(limits.per_tag),
        },
        "problems": list(found.problems),
    }


def _print_table(entries: list[ListedEntry]) -> None:
    from rich.text import Text

    from torchdeck.cli.console import bare_table, fitting, make_console, print_table, room

    console = make_console()
    rows = [_cells(each) for each in entries]
    kept = fitting(HEADINGS, rows, BY_WEIGHT, room(console))
    table = bare_table([HEADINGS[at] for at in kept])
    for row in rows:
        table.add_row(*(Text(row[at]) for at in kept))
    print_table(console, table)


def _cells(each: ListedEntry) -> tuple[str, ...]:
    entry = each.entry
    return (
        entry.id,
        entry.name,
        each.state,
        str(entry.priority or ""),
        _start(each),
        each.needs,
        entry.run,
        each.why,
    )


def _start(each: ListedEntry) -> str:
    """Return `in about 2 h`; empty if nothing is known."""
    if each.wait is None or each.wait.estimate is None:
        return ""
    left = each.wait.estimate - time.time()
    return "soon" if left < 1 else f"in about {duration(left)}"
