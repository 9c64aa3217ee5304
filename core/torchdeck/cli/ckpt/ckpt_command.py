"""`torchdeck ckpt`: what checkpoints a run has, and whether they are sound; files for other tools."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from torchdeck.cli.ckpt.chosen_checkpoint import (
    WHERE,
    CkptUsageError,
    OnNodesError,
    checkpoints_of,
    chosen,
    how_to_pull,
    of_script,
    on_a_node,
    retention_of,
    run_named,
)
from torchdeck.cli.ckpt.exchange import add_parsers
from torchdeck.cli.ckpt.script import (
    chosen_of_script,
    list_line,
    list_row,
    verdict_here,
    verified_rows,
)
from torchdeck.cli.output import USAGE, json_text
from torchdeck.cli.refusals import report
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.contract.refusal import Refusal, refusal_of
from torchdeck.quantities import size
from torchdeck.runs.folders.verdicts import without_checksum

if TYPE_CHECKING:
    from torchdeck.contract.checkpoints.listing import CheckpointInfo
    from torchdeck.runs.folders.checkpoints import Standing
    from torchdeck.runs.run_state import CheckpointSeen
    from torchdeck.use_cases.checkpoints.there import Verified


DAMAGED = 1


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "ckpt",
        help="list, verify, export and convert checkpoints",
        description="List, verify, export and convert the checkpoints of runs.",
    )
    commands = parser.add_subparsers(dest="ckpt_command", metavar="COMMAND", required=True)
    shown = commands.add_parser("list", help="show a run's checkpoints", description="Nothing is hashed.")
    shown.add_argument("id", metavar="ID", help=WHERE)
    shown.add_argument("--json", action="store_true", help="an array of objects")
    shown.set_defaults(handler=run_list)
    checked = commands.add_parser(
        "verify",
        help="hash every file of a checkpoint",
        description="Compare every file of a checkpoint with its manifest, on the nodes that have it unless "
        "it is here. Exits with 1 if a file is damaged. Checkpoints of scripts have no manifest: their files "
        "are checked as far as their formats have checksums, and the others are counted (JSON: `unchecked`, "
        "and `sound` is null).",
    )
    checked.add_argument("id", metavar="ID", help=WHERE)
    checked.add_argument("step", metavar="STEP", nargs="?", help="a step or `final`; default: the newest")
    checked.add_argument("--all", action="store_true", help="every checkpoint of the run")
    checked.add_argument("--json", action="store_true", help="an array of objects")
    checked.set_defaults(handler=run_verify)
    add_parsers(commands)


def run_verify(args: argparse.Namespace) -> int:
    """Hash what was asked for, where it lies.

    1 when something is damaged, 2 when it is not there, 3 when a node that has it does not answer.
    """
    there: list[Verified] = []
    try:
        if own := of_script(args.id):
            found = chosen_of_script(own, args.step, every=args.all)
            return _say_verified(verified_rows(args.id, found), as_json=args.json)
        asked: Sequence[CheckpointInfo] = chosen(args.id, args.step, every=args.all)
    except OnNodesError as error:
        from torchdeck.cli.runs.pull import transfer_progress
        from torchdeck.use_cases.checkpoints.there import verify_there

        asked = error.here
        here = {info.path.name for info in asked if info.complete}
        try:
            there = verify_there(error.layout, error.which, TerminalUi(), transfer_progress(), here)
        except (Refusal, OSError) as unreached:
            return report(refusal_of(unreached), as_json=args.json, command="torchdeck ckpt verify")
    except CkptUsageError as error:
        return refuse("verify", error)
    except Refusal as unreached:
        return report(unreached, as_json=args.json, command="torchdeck ckpt verify")
    results = [*(_result_here(args.id, info) for info in asked), *map(_result_there, there)]
    return _say_verified(results, as_json=args.json)


def _say_verified(results: Sequence[dict[str, Any]], *, as_json: bool) -> int:
    if as_json:
        print_json([{key: value for key, value in row.items() if key != "name"} for row in results])
    else:
        for row in results:
            sys.stdout.write(f"{row['name']}: {_judged(row)}\n")
            sys.stdout.writelines(f"  {problem}\n" for problem in row["problems"])
    return DAMAGED if any(row["sound"] is False for row in results) else 0


def _judged(row: dict[str, Any]) -> str:
    if row["sound"] is None:
        return f"nothing damaged was found, but {without_checksum(row['unchecked'])}"
    return "sound" if row["sound"] else "damaged"


def _result_here(asked: str, info: CheckpointInfo) -> dict[str, Any]:
    problems = verdict_here(asked, info.path).problems
    return {
        "name": info.path.name,
        "step": info.step,
        "path": str(info.path),
        "sound": not problems,
        "problems": list(problems),
        "unchecked": 0,
    }


def _result_there(found: Verified) -> dict[str, Any]:
    problems = list(found.problems)
    if found.unseen:
        problems.append(
            f"{len(found.unseen)} files, such as {found.unseen[0]}, are on no node of the run that answers"
        )
    return {
        "name": f"{found.name} on {', '.join(found.nodes)}",
        "step": found.step,
        "path": found.path,
        "nodes": list(found.nodes),
        "sound": not problems,
        "problems": problems,
        "unchecked": 0,
    }


# `torchdeck ckpt list`: what lies there, how good each is, and why it is kept.


def run_list(args: argparse.Namespace) -> int:
    """Print what lies in the run's checkpoint directory; 2 when there is no such run."""
    from torchdeck.runs.folders.checkpoints import standings

    try:
        found = checkpoints_of(args.id)
        rows = list(zip(found, standings(found, retention_of(args.id)), strict=True))
        own = of_script(args.id)
        elsewhere = None if own else on_a_node(args.id, found)
    except CkptUsageError as error:
        return refuse("list", error)
    if args.json:
        others = [_row_of_node(elsewhere)] if elsewhere else []
        print_json([*(_row(*pair) for pair in rows), *map(list_row, own), *others])
        return 0
    if not found and not own and elsewhere is None:
        sys.stdout.write(_none_yet(args.id))
    for info, standing in rows:
        sys.stdout.write(_line(info, standing) + "\n")
    sys.stdout.writelines(f"{list_line(each)}\n" for each in own)
    if elsewhere is not None:
        sys.stdout.write(f"{how_to_pull(elsewhere, args.id)}\n")
    return 0


def _none_yet(asked: str) -> str:
    from torchdeck.runs.folders.checkpoints import unnoticed_checkpoint

    layout = run_named(asked)
    path = None if layout is None else unnoticed_checkpoint(layout)
    if path is None:
        return "no checkpoints yet\n"
    return f"{path} was written after the run started, but its agent did not notice it: `ckpt list {path}`\n"


def print_json(value: Any) -> None:
    """Print a value for programs."""
    sys.stdout.write(json_text(value, indent=2) + "\n")


def refuse(command: str, error: CkptUsageError) -> int:
    """Say what is wrong with the command line; the exit code."""
    sys.stderr.write(f"torchdeck ckpt {command}: {error}\n")
    return USAGE


def _row(info: CheckpointInfo, standing: Standing) -> dict[str, Any]:
    manifest = info.manifest
    return {
        "step": info.step,
        "name": info.path.name,
        "path": str(info.path),
        "node": "",
        "complete": info.complete,
        "why": info.why,
        "size": info.size,
        "created": manifest.created if manifest else None,
        "seconds": manifest.seconds if manifest else None,
        "world_size": manifest.world_size if manifest else None,
        "strategy": manifest.strategy if manifest else None,
        "run_id": manifest.run_id if manifest else None,
        "attempt": manifest.attempt if manifest else None,
        "position": dict(manifest.position) if manifest else None,
        "metrics": dict(manifest.current_metrics) if manifest else {},
        "best": standing.best,
        "kept": list(standing.kept),
    }


def _row_of_node(seen: CheckpointSeen) -> dict[str, Any]:
    """Return the row of a checkpoint that a node reported and that is not here."""
    return {
        "step": seen.step,
        "name": PurePath(seen.path).name,
        "path": seen.path,
        "node": seen.node,
        "complete": True,
        "why": "",
        "size": seen.size,
        "created": seen.time,
        "seconds": seen.seconds,
    }


def _line(info: CheckpointInfo, standing: Standing) -> str:
    if info.manifest is None or not info.complete:
        return f"{info.path.name:<16} {size(info.size):>10}  not complete: {info.why}"
    manifest = info.manifest
    created = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(manifest.created))
    ranks = "1 rank" if manifest.world_size == 1 else f"{manifest.world_size} ranks"
    parts = [
        f"{info.path.name:<16} {size(info.size):>10}  step {info.step}, {manifest.strategy} on {ranks}",
        created,
        *([f"saved in {manifest.seconds:.2f} s"] if manifest.seconds else []),  # not in what was converted
        *(f"{name} {number:.6g}" for name, number in sorted(manifest.current_metrics.items())),
    ]
    best = " (best)" if standing.best else ""
    reasons = [why for why in standing.kept if why != info.path.name]
    kept = f"; kept: {', '.join(reasons)}" if reasons else ""
    return ", ".join(parts) + best + kept
