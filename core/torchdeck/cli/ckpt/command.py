"""`torchdeck ckpt`: what checkpoints a run has, and whether they are sound; files for other tools."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from torchdeck.cli.ckpt.exchange import add_parsers
from torchdeck.cli.ckpt.listing import print_json, refuse, run_list
from torchdeck.cli.ckpt.lookup import WHERE, CkptUsageError, chosen

DAMAGED = 1


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "ckpt", help="list, verify, export and convert checkpoints", description=__doc__
    )
    commands = parser.add_subparsers(dest="ckpt_command", metavar="COMMAND", required=True)
    shown = commands.add_parser("list", help="show a run's checkpoints", description="Nothing is hashed.")
    shown.add_argument("id", metavar="ID", help=WHERE)
    shown.add_argument("--json", action="store_true", help="an array of objects")
    shown.set_defaults(handler=run_list)
    checked = commands.add_parser(
        "verify",
        help="hash every file of a checkpoint",
        description="Compare every file of a checkpoint with its manifest. Exits with 1 when one is damaged.",
    )
    checked.add_argument("id", metavar="ID", help=WHERE)
    checked.add_argument("step", metavar="STEP", nargs="?", help="a step or `final`; default the newest")
    checked.add_argument("--all", action="store_true", help="every checkpoint of the run")
    checked.add_argument("--json", action="store_true", help="an array of objects")
    checked.set_defaults(handler=run_verify)
    add_parsers(commands)


def run_verify(args: argparse.Namespace) -> int:
    """Hash what was asked for; 1 when something is damaged, 2 when it is not there."""
    from torchdeck.contract.checkpoints.verification import verify

    try:
        asked = chosen(args.id, args.step, every=args.all)
    except CkptUsageError as error:
        return refuse("verify", error)
    results = [(info, verify(info.path)) for info in asked]
    if args.json:
        print_json(
            [
                {"step": info.step, "path": str(info.path), "sound": not problems, "problems": problems}
                for info, problems in results
            ]
        )
    else:
        for info, problems in results:
            sys.stdout.write(f"{info.path.name}: {'damaged' if problems else 'sound'}\n")
            sys.stdout.writelines(f"  {problem}\n" for problem in problems)
    return DAMAGED if any(problems for _, problems in results) else 0
