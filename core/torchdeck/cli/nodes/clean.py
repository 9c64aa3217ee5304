"""`torchdeck nodes clean`: end and remove what dead and deleted runs have left on nodes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from torchdeck.cli.nodes.command_errors import nodes_home, reports_refusals
from torchdeck.cli.output import REFUSED, SUCCEEDED, json_text
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.quantities import size

if TYPE_CHECKING:
    from torchdeck.use_cases.nodes.clean import Cleaned, Left

UNKNOWN = "it is unknown here, and another machine may use it"
GONE = "someone else removed it meanwhile"


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "clean",
        help="end and remove what dead and deleted runs left, after asking",
        description="Ends only processes that carry the id of a run whose agent and shim on that node are "
        "gone, and removes only folders of runs that were deleted on this machine. Exits with 3 "
        "if a node is not reachable, a process does not end or a folder cannot be removed.",
    )
    parser.add_argument(
        "nodes", nargs="*", metavar="NODE", help="only these nodes; default: all nodes of the inventory"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="print one JSON object; needs --yes")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Look, show, ask, end and remove; 3 when something is left undone."""
    from torchdeck.use_cases.nodes.chosen import choose_nodes
    from torchdeck.use_cases.nodes.clean import clean, find_left

    chosen = choose_nodes(args.nodes, nodes_home(), TerminalUi())
    left = find_left(chosen)
    if (left.processes or left.folders) and not args.yes and not agreed(left, asking=not args.json):
        return REFUSED
    done = clean(left, chosen.connector)
    problems = [
        *left.problems,
        *(each.why for each in done.ended if each.why),
        *(str(each) for each in done.deleted if each.why),
    ]
    if args.json:
        print(json_text({**_document(left, done), "problems": problems}, indent=1))
    else:
        tell(left, done, problems)
    return REFUSED if problems else SUCCEEDED


def _document(left: Left, done: Cleaned) -> dict[str, Any]:
    came = {(each.node, each.run_id): each for each in done.deleted}
    folders = []
    for folder in (*left.folders, *left.unknown):
        each = came.get((folder.node, folder.run_id))
        why = UNKNOWN if each is None else each.why or ("" if each.removed else GONE)
        folders.append({**asdict(folder), "removed": each is not None and each.removed, "why": why})
    ended = [
        {"node": each.node, "ended": each.ended, "kept": each.kept, "left": each.left, "why": each.why}
        for each in done.ended
    ]
    return {"nodes": ended, "folders": folders}


def agreed(left: Left, *, asking: bool) -> bool:
    """Show it and ask at the terminal; return False if there is none."""
    if left.processes:
        print("These processes carry the id of a run that is no longer supervised:", file=sys.stderr)
    for node, runs in left.processes.items():
        for run in runs:
            which = f"rank{'' if len(run.ranks) == 1 else 's'} {', '.join(map(str, run.ranks))}"
            ranks = f", {which}" if run.ranks else ""
            pids = ", ".join(map(str, run.processes))
            print(f"  {node}: run {run.run_id} of {run.user}: pid {pids}{ranks}", file=sys.stderr)
    if left.folders:
        print("These folders belong to runs that were deleted here:", file=sys.stderr)
    for each in left.folders:
        print(f"  {each.node}: run {each.run_id}, {size(each.size)}", file=sys.stderr)
    does = ["end"] * bool(left.processes) + ["remove"] * bool(left.folders)
    if not asking or not sys.stdin.isatty():
        print(f"torchdeck: no terminal to ask on; --yes {'s and '.join(does)}s them", file=sys.stderr)
        return False
    print(f"{' and '.join(does).capitalize()} them? (yes/no) ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("yes", "y")


def tell(left: Left, done: Cleaned, problems: Sequence[str]) -> None:
    """Print what was done, what is left, and what went wrong."""
    for answer in done.ended:
        for run_id, count in answer.ended.items():
            print(f"{answer.node}: ended {count} processes of run {run_id}")
        for run_id in answer.kept:
            print(f"{answer.node}: run {run_id} is supervised again, and was left alone")
    came = {(each.node, each.run_id): each for each in done.deleted}
    for folder in left.folders:
        each = came[folder.node, folder.run_id]
        if not each.why:
            what = f", {size(folder.size)}" if each.removed else f": {GONE}"
            print(f"{folder.node}: {'removed ' if each.removed else ''}run {folder.run_id}{what}")
    for problem in problems:
        print(f"torchdeck: {problem}", file=sys.stderr)
    if not done.ended and not left.folders and not left.unknown and not problems:
        print("nothing is left of dead or deleted runs")
    for folder in left.unknown:
        command = f"`torchdeck runs delete {folder.run_id} --node {folder.node}`"
        what = f"{folder.node}: run {folder.run_id}, {size(folder.size)}, is unknown here"
        print(f"{what} and is kept, because another machine may use it: {command} removes it")
