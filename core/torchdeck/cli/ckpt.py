"""`torchdeck ckpt`: what checkpoints a run has, and whether they are sound. torch is not needed."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.quantities import size

if TYPE_CHECKING:
    from torchdeck.distributed.checkpoints.manifest import CheckpointInfo
    from torchdeck.rundir.layout import RunLayout

DAMAGED = 1
USAGE_ERROR = 2


class CkptUsageError(Exception):
    """What was asked for is not there; the message says what is."""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser("ckpt", help="list and verify checkpoints", description=__doc__)
    commands = parser.add_subparsers(dest="ckpt_command", metavar="COMMAND", required=True)
    where = "a run's id, the beginning of one, its name, or a directory with checkpoints"
    shown = commands.add_parser("list", help="show a run's checkpoints", description="Nothing is hashed.")
    shown.add_argument("id", metavar="ID", help=where)
    shown.add_argument("--json", action="store_true", help="an array of objects")
    shown.set_defaults(handler=run_list)
    checked = commands.add_parser(
        "verify",
        help="hash every file of a checkpoint",
        description="Compare every file of a checkpoint with its manifest. Exits with 1 when one is damaged.",
    )
    checked.add_argument("id", metavar="ID", help=where)
    checked.add_argument("step", metavar="STEP", nargs="?", help="a step or `final`; default the newest")
    checked.add_argument("--all", action="store_true", help="every checkpoint of the run")
    checked.add_argument("--json", action="store_true", help="an array of objects")
    checked.set_defaults(handler=run_verify)


def run_list(args: argparse.Namespace) -> int:
    """Print what lies in the run's checkpoint directory; 2 when there is no such run."""
    try:
        found = _checkpoints(args.id)
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
        chosen = _chosen(_checkpoints(args.id), args.step, every=args.all)
    except CkptUsageError as error:
        return _refuse("verify", error)
    results = [(info, verify(info.path)) for info in chosen]
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


def _checkpoints(asked: str) -> list[CheckpointInfo]:
    from torchdeck.distributed.checkpoints.manifest import CheckpointError, inspect, list_checkpoints

    folder = _folder(asked)
    alone = inspect(folder)
    if alone is not None:
        return [alone]
    try:
        return list_checkpoints(folder)
    except CheckpointError as error:
        raise CkptUsageError(str(error)) from error


def _folder(asked: str) -> Path:
    """The folder that a path or a run's id names."""
    from torchdeck.rundir.layout import RunLayout

    path = Path(asked).expanduser()
    if asked and path.is_dir():
        layout = RunLayout(path.absolute())
        return _directory_of(layout) if layout.plan.is_file() else path
    return _directory_of(_find_run(asked))


def _find_run(asked: str) -> RunLayout:
    from torchdeck.rundir.journal import NewerFormatError
    from torchdeck.runs.directory import RunDirectoryError
    from torchdeck.runs.home import HomeError, torchdeck_home
    from torchdeck.runs.registry import RunNotFoundError, RunRegistry

    try:
        return RunRegistry(torchdeck_home()).find(asked)
    except (RunNotFoundError, RunDirectoryError, HomeError, NewerFormatError) as error:
        raise CkptUsageError(str(error)) from error


def _directory_of(layout: RunLayout) -> Path:
    """Where the run's plan says its checkpoints lie."""
    from torchdeck.plan.slots import UnknownSlotError, fill
    from torchdeck.rundir.atomic import read_json

    plan = read_json(layout.plan)
    try:
        directory = str(plan["checkpoint"]["directory"])
        return Path(fill(directory, {"run_dir": str(layout.root), "run_id": layout.root.name}))
    except (TypeError, KeyError, UnknownSlotError) as error:
        raise CkptUsageError(
            f"{layout.plan} does not say where the run's checkpoints lie ({error}): give their folder instead"
        ) from error


def _chosen(found: Sequence[CheckpointInfo], step: str | None, *, every: bool) -> list[CheckpointInfo]:
    from torchdeck.distributed.checkpoints.manifest import checkpoint_name, is_leftover

    if every and step is not None:
        raise CkptUsageError("give STEP or --all, not both")
    checkpoints = [
        info for info in found if not is_leftover(info.path) and not info.path.name.startswith(".")
    ]
    if not checkpoints:
        raise CkptUsageError("there is no checkpoint to verify")
    if every:
        return checkpoints
    if step is None:
        return [checkpoints[-1]]
    name = checkpoint_name(int(step)) if step.isdecimal() else step
    named = [info for info in checkpoints if info.path.name == name]
    if not named:
        there = ", ".join(info.path.name for info in checkpoints)
        raise CkptUsageError(f"there is no checkpoint {name}; there are: {there}")
    return named


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
