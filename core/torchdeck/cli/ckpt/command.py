"""`torchdeck ckpt`: what checkpoints a run has, and whether they are sound; files for other tools."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torchdeck.cli.ckpt.exchange import add_parsers
from torchdeck.cli.ckpt.listing import print_json, refuse, run_list
from torchdeck.cli.ckpt.lookup import WHERE, CkptUsageError, OnNodesError, chosen
from torchdeck.cli.refusals import report
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.contract.refusal import Refusal, refusal_of

if TYPE_CHECKING:
    from torchdeck.contract.checkpoints.listing import CheckpointInfo
    from torchdeck.use_cases.checkpoints import Verified

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
        "it is here. Exits with 1 if a file is damaged.",
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
    from torchdeck.contract.checkpoints.verification import verify

    there: list[Verified] = []
    try:
        asked: Sequence[CheckpointInfo] = chosen(args.id, args.step, every=args.all)
    except OnNodesError as error:
        from torchdeck.cli.runs.pull import transfer_progress
        from torchdeck.use_cases.checkpoints import verify_there

        asked = error.here
        here = {info.path.name for info in asked if info.complete}
        try:
            there = verify_there(error.layout, error.which, TerminalUi(), transfer_progress(), here)
        except (Refusal, OSError) as unreached:
            return report(refusal_of(unreached), as_json=args.json, command="torchdeck ckpt verify")
    except CkptUsageError as error:
        return refuse("verify", error)
    results = [*(_result_here(info, verify(info.path)) for info in asked), *map(_result_there, there)]
    if args.json:
        print_json([{key: value for key, value in row.items() if key != "name"} for row in results])
    else:
        for row in results:
            sys.stdout.write(f"{row['name']}: {'sound' if row['sound'] else 'damaged'}\n")
            sys.stdout.writelines(f"  {problem}\n" for problem in row["problems"])
    return DAMAGED if not all(row["sound"] for row in results) else 0


def _result_here(info: CheckpointInfo, problems: Sequence[str]) -> dict[str, Any]:
    return {
        "name": info.path.name,
        "step": info.step,
        "path": str(info.path),
        "sound": not problems,
        "problems": list(problems),
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
    }
