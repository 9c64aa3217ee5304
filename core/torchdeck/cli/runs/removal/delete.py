"""`torchdeck runs delete`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torchdeck.cli.output import REFUSED, SUCCEEDED, USAGE, json_text
from torchdeck.cli.runs.chosen_run import ID_HELP, find_run, reports_refusals
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.contract.refusal import Refusal

if TYPE_CHECKING:
    from torchdeck.contract.layout import RunLayout
    from torchdeck.use_cases.delete import NodeDeletion


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "delete",
        help="remove a finished run with its checkpoints",
        description="Remove a finished run with the checkpoints in its folder, here and on its nodes. A node "
        "on which one of its processes is alive keeps it. Exits with 3 if something is left. On a "
        "terminal it asks first.",
    )
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--here", action="store_true", help="keep its files on its nodes")
    where.add_argument(
        "--node",
        nargs="+",
        metavar="NODE",
        help="remove only its files on these nodes, also if the run is deleted here; needs the whole id",
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask on a terminal")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Delete; 3 if the run is alive, something of it cannot be removed, or the answer was no."""
    from torchdeck.runs.folders.node_parts import remote_nodes
    from torchdeck.use_cases.delete import delete

    if args.node is not None:
        return _on_nodes_alone(args.id, args.node, as_json=args.json)
    layout = find_run(args.id)
    names = () if args.here else remote_nodes(layout)
    asked = not args.yes and sys.stdin.isatty()
    if asked and not _agreed(layout, names):
        print(f"torchdeck: {layout.root.name} was not deleted", file=sys.stderr)
        return REFUSED
    _say_nodes(layout.root.name, names)
    try:
        told = delete(layout, TerminalUi(), on_nodes=not args.here, results=asked or args.yes)
    except Refusal as error:
        print(f"torchdeck: {error}", file=sys.stderr)
        return REFUSED
    return _tell(layout.root.name, told, as_json=args.json, here=True)


def _agreed(layout: RunLayout, nodes: Sequence[str]) -> bool:
    """Ask for confirmation on the terminal."""
    from torchdeck.agent.snapshots.written_files import written_beside
    from torchdeck.runs.follower import read_run

    try:
        view = read_run(layout)
        what = f"run {view.name} ({view.id}, {view.state})"
    except OSError:
        what = f"run {layout.root.name}, which cannot be read,"
    where = f", here and on {', '.join(nodes)}" if nodes else ""
    if beside := written_beside(layout):
        what += f", {len(beside):,} files that its program wrote next to its code"
    question = f"Delete {what} and the checkpoints in it{where}? (yes/no) "
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("yes", "y")


def _on_nodes_alone(run_id: str, names: Sequence[str], *, as_json: bool) -> int:
    """Handle what is left on nodes of a run that is over or no longer exists here."""
    from torchdeck.contract.layout import RUN_ID
    from torchdeck.runs.home import torchdeck_home
    from torchdeck.use_cases.delete import delete_from_nodes

    if RUN_ID.fullmatch(run_id) is None:
        print(f"torchdeck: {run_id!r} is not a run's whole id, which --node needs", file=sys.stderr)
        return USAGE
    home = torchdeck_home()
    _say_nodes(run_id, names)
    try:
        told = delete_from_nodes(run_id, names, home, TerminalUi())
    except Refusal as error:
        print(f"torchdeck: {error}", file=sys.stderr)
        return REFUSED
    return _tell(run_id, told, as_json=as_json, here=False)


def _say_nodes(run_id: str, names: Sequence[str]) -> None:
    """For a person who waits."""
    if not names or not sys.stderr.isatty():
        return
    from torchdeck.use_cases.delete import NODES_LIMIT

    limit = f"{NODES_LIMIT:.0f} s at most"
    print(f"torchdeck: removing what {', '.join(names)} have of run {run_id}, {limit}", file=sys.stderr)


def _tell(run_id: str, told: Sequence[NodeDeletion], *, as_json: bool, here: bool) -> int:
    if as_json:
        nodes = {"nodes": [each.to_json() for each in told]} if told else {}
        print(json_text({**({"deleted": run_id} if here else {"run": run_id}), **nodes}))
    else:
        if here:
            print(f"deleted {run_id}")
        for each in told:
            print(
                f"torchdeck: {each}" if each.why else str(each), file=sys.stderr if each.why else sys.stdout
            )
    return REFUSED if any(each.why for each in told) else SUCCEEDED
