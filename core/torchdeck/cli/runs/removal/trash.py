"""`torchdeck runs trash`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torchdeck.cli.output import REFUSED, SUCCEEDED, json_text
from torchdeck.cli.runs.chosen_run import reports_refusals
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.contract.refusal import Refusal
from torchdeck.quantities import counted, moment, size

if TYPE_CHECKING:
    from torchdeck.runs.folders.trash import Trashed


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "trash",
        help="list, restore or remove the runs that the window has deleted",
        description="List the runs in the trash, with the room that each takes. The window deletes runs into "
        "it; after 30 days they are removed. `runs delete` removes a run at once.",
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--restore", metavar="ID", help="bring a run back; a unique prefix of its id is enough"
    )
    action.add_argument("--empty", action="store_true", help="remove all of them, on their nodes, too")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask on a terminal")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """List, restore or empty; 2: no such run; 3: the answer was no, or a node has something left."""
    from torchdeck.agent.probe.run_folders import room_of
    from torchdeck.runs.folders.trash import in_trash
    from torchdeck.runs.home import torchdeck_home

    trashed = in_trash(torchdeck_home())
    if args.restore is not None:
        return _restore(_one_of(trashed, args.restore), as_json=args.json)
    rooms = [room_of(each.folder) for each in trashed]
    if args.empty:
        return _empty(trashed, sum(rooms), ask=not args.yes, as_json=args.json)
    if args.json:
        print(json_text({"runs": [_row(*each) for each in zip(trashed, rooms, strict=True)]}))
        return SUCCEEDED
    for each, room in zip(trashed, rooms, strict=True):
        print(f"{each.run_id}  {each.label}  deleted {moment(each.deleted)}  {size(room)}")
    if not trashed:
        print("the trash is empty")
    return SUCCEEDED


def _row(trashed: Trashed, room: int) -> dict[str, Any]:
    return {
        "id": trashed.run_id,
        "name": trashed.name,
        "differs": trashed.differs,
        "deleted": trashed.deleted,
        "bytes": room,
    }


def _one_of(trashed: Sequence[Trashed], asked: str) -> Trashed:
    found = [each for each in trashed if each.run_id == asked] or [
        each for each in trashed if each.run_id.startswith(asked)
    ]
    if len(found) != 1:
        what = f"{len(found)} runs in the trash begin with" if found else "no run in the trash is"
        raise Refusal(f"{what} {asked}", fix="`torchdeck runs trash` lists them")
    return found[0]


def _restore(trashed: Trashed, *, as_json: bool) -> int:
    from torchdeck.use_cases.delete import restore

    restore(trashed.folder)
    print(json_text({"restored": trashed.run_id}) if as_json else f"restored {trashed.run_id}")
    return SUCCEEDED


def _empty(trashed: Sequence[Trashed], room: int, *, ask: bool, as_json: bool) -> int:
    from torchdeck.use_cases.delete import empty_trash

    what = counted(len(trashed), "run")
    if trashed and ask and sys.stdin.isatty():
        print(
            f"Remove {what} for good? It frees {size(room)}. (yes/no) ", end="", file=sys.stderr, flush=True
        )
        if sys.stdin.readline().strip().lower() not in ("yes", "y"):
            print("torchdeck: the trash was not emptied", file=sys.stderr)
            return REFUSED
    told = empty_trash(trashed, TerminalUi())
    if as_json:
        removed = [each.run_id for each in trashed]
        print(json_text({"removed": removed, "bytes": room, "nodes": [each.to_json() for each in told]}))
    else:
        print(f"removed {what}, {size(room)}")
        for each in told:
            print(each, file=sys.stderr if each.why else sys.stdout)
    return REFUSED if any(each.why for each in told) else SUCCEEDED
