"""`torchdeck runs space`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torchdeck.cli.output import REFUSED, SUCCEEDED, json_text
from torchdeck.cli.runs.chosen_run import ID_HELP, find_run, registry, reports_refusals, whole_number
from torchdeck.contract.refusal import Refusal
from torchdeck.quantities import counted, size

if TYPE_CHECKING:
    from torchdeck.runs.table.space import Rule, RunRoom, Surplus


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "space",
        help="list the largest runs and checkpoints; remove checkpoints by a rule",
        description="List the runs and checkpoints that take most room on this machine. With a --keep "
        "option: list the checkpoints of finished runs that the rule would remove, and the room that this "
        "frees; --delete removes them. The newest checkpoint of a run, `final`, and those of pinned runs "
        "always stay.",
    )
    parser.add_argument("ids", metavar="ID", nargs="*", help=f"only these runs; {ID_HELP}")
    parser.add_argument("--limit", type=whole_number, default=20, metavar="N", help="at most N runs (20)")
    parser.add_argument("--keep-best", type=whole_number, metavar="N", help="keep the N best checkpoints")
    parser.add_argument("--keep-last", type=whole_number, metavar="N", help="keep the N newest (1)")
    parser.add_argument("--keep-every", type=whole_number, metavar="STEPS", help="keep multiples of STEPS")
    parser.add_argument("--delete", action="store_true", help="remove what the rule does not keep")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask on a terminal")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """List, preview or remove; 3: the answer was no, or something is left."""
    from torchdeck.runs.table.reading import read_rows
    from torchdeck.runs.table.space import measured, surplus

    rule = _rule(args)
    if args.delete and rule is None:
        raise Refusal("--delete needs a rule", fix="give --keep-best, --keep-last or --keep-every")
    ids = {find_run(asked).root.name for asked in args.ids}
    every = read_rows(registry().folder.parent)
    runs = measured([row for row in every if not ids or row.entry.id in ids], among=every)
    if rule is None:
        _list(runs, args.limit, as_json=args.json)
        return SUCCEEDED
    found = surplus(runs, rule)
    if args.delete:
        return _remove(found, ask=not args.yes, as_json=args.json)
    _preview(found, _reasons(runs, rule), as_json=args.json)
    return SUCCEEDED


def _rule(args: argparse.Namespace) -> Rule | None:
    from torchdeck.runs.table.space import Rule

    given = (args.keep_last, args.keep_best, args.keep_every)
    if given == (None, None, None):
        return None
    return Rule(args.keep_last or 1, args.keep_best or 0, args.keep_every or 0)


def _list(runs: Sequence[RunRoom], limit: int, *, as_json: bool) -> None:
    if as_json:
        print(json_text({"runs": [_room_json(each) for each in runs[:limit]]}))
        return
    for each in runs[:limit]:
        pinned = "  pinned" if each.row.note.pinned else ""
        print(f"{size(each.room):>10}  {each.row.entry.id}  {each.row.label}{pinned}")
        for found in each.checkpoints:
            print(f"{size(found.info.size):>10}    {found.info.path.name}{'  best' * found.standing.best}")
    total = sum(each.room for each in runs)
    print(f"{size(total):>10}  {counted(len(runs), 'run')}")


def _room_json(run: RunRoom) -> dict[str, Any]:
    checkpoints = [
        {"path": str(each.info.path), "step": each.info.step, "bytes": each.info.size}
        for each in run.checkpoints
    ]
    entry = run.row.entry
    return {"id": entry.id, "name": run.row.name, "bytes": run.room, "checkpoints": checkpoints}


def _reasons(runs: Sequence[RunRoom], rule: Rule) -> dict[str, tuple[str, str]]:
    """Return the label of each run whose checkpoints all stay, and why, by its id."""
    told = ((each.row.entry.id, each.row.label, each.why_kept_by(rule)) for each in runs if each.checkpoints)
    return {run_id: (label, why) for run_id, label, why in told if why}


def _preview(found: Sequence[Surplus], kept: Mapping[str, tuple[str, str]], *, as_json: bool) -> None:
    total = sum(each.size for each in found)
    if as_json:
        rows = [
            {"id": each.run.row.entry.id, "path": str(each.checkpoint.info.path), "bytes": each.size}
            for each in found
        ]
        stay = [{"id": run_id, "why": why} for run_id, (_, why) in kept.items()]
        print(json_text({"checkpoints": rows, "bytes": total, "kept": stay}))
        return
    for label, why in kept.values():
        print(f"{'stays':>10}  {label}: {why}")
    for each in found:
        print(f"{size(each.size):>10}  {each.run.row.label}  {each.checkpoint.info.path.name}")
    what = counted(len(found), "checkpoint")
    print(
        f"{size(total):>10}  {what} would be removed; --delete removes them" if found else "nothing to remove"
    )


def _remove(found: Sequence[Surplus], *, ask: bool, as_json: bool) -> int:
    from torchdeck.use_cases.table.free_space import free_space

    what, room = counted(len(found), "checkpoint"), size(sum(each.size for each in found))
    if found and ask and sys.stdin.isatty():
        question = f"Remove {what} for good? It frees {room}. (yes/no) "
        print(question, end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("yes", "y"):
            print("torchdeck: nothing was removed", file=sys.stderr)
            return REFUSED
    freed = free_space(found)
    if as_json:
        print(json_text(freed._asdict()))
    else:
        print(f"removed {counted(freed.checkpoints, 'checkpoint')}, {size(freed.size)}")
        for problem in freed.problems:
            print(f"torchdeck: {problem}", file=sys.stderr)
    return REFUSED if freed.problems else SUCCEEDED
