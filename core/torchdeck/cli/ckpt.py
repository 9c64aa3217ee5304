"""`torchdeck ckpt`: what checkpoints a run has, and whether they are sound; files for other tools."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from torchdeck.cli.ckpt_exchange import add_parsers
from torchdeck.cli.ckpt_lookup import WHERE, CkptUsageError, checkpoints_of, chosen
from torchdeck.quantities import size

if TYPE_CHECKING:
    from torchdeck.distributed.checkpoints.manifest import CheckpointInfo

DAMAGED = 1
USAGE_ERROR = 2


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser("ckpt", help="list and verify checkpoints", description=__doc__)
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


def run_list(args: argparse.Namespace) -> int:
    """Print what lies in the run's checkpoint directory; 2 when there is no such run."""
    try:
        found = checkpoints_of(args.id)
    except CkptUsageError as error:
        return _refuse("list", error)
    if args.json:
        _print_json([_row(info) for info in found])
        return 0
    if not found:
        sys.stdout.write("no checkpoints yet\n")
    for info in found:
        sys.stdout.write(_line(info) + "\n")
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """Hash what was asked for; 1 when something is damaged, 2 when it is not there."""
    from torchdeck.distributed.checkpoints.manifest import verify

    try:
        asked = chosen(checkpoints_of(args.id), args.step, every=args.all)
    except CkptUsageError as error:
        return _refuse("verify", error)
    results = [(info, verify(info.path)) for info in asked]
    if args.json:
        _print_json(
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


def _row(info: CheckpointInfo) -> dict[str, Any]:
    manifest = info.manifest
    return {
        "step": info.step,
        "name": info.path.name,
        "path": str(info.path),
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
    }


def _line(info: CheckpointInfo) -> str:
    if info.manifest is None or not info.complete:
        return f"{info.path.name:<16} {size(info.size):>10}  not complete: {info.why}"
    manifest = info.manifest
    created = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(manifest.created))
    ranks = "1 rank" if manifest.world_size == 1 else f"{manifest.world_size} ranks"
    return (
        f"{info.path.name:<16} {size(info.size):>10}  step {info.step}, {manifest.strategy} on {ranks}, "
        f"{created}, saved in {manifest.seconds:.2f} s"
    )


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _refuse(command: str, error: CkptUsageError) -> int:
    sys.stderr.write(f"torchdeck ckpt {command}: {error}\n")
    return USAGE_ERROR
