"""`torchdeck import`: adds runs that other tools recorded to the list."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.cli.output import SUCCEEDED, json_text
from torchdeck.cli.refusals import report
from torchdeck.contract.refusal import Refusal

if TYPE_CHECKING:
    from torchdeck.use_cases.elsewhere.import_runs import Imported

_WORDS = "add runs of TensorBoard, wandb, trackio, Lightning and Hugging Face"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "import",
        help=_WORDS,
        description="Add the runs that other tools recorded in a folder to the list of runs: TensorBoard,\n"
        "wandb offline, trackio, MLflow's database, Lightning, Hugging Face. Their files are only read, and\n"
        "stay where they are. A run that was imported already gets what was added to it since.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="a folder with such runs, at any depth")
    parser.add_argument("--name", default="", help="beginning of their names (default: the folder's name)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per run")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Import and print each run; 2 if there is none."""
    from torchdeck.use_cases.elsewhere.import_runs import import_runs

    try:
        for each in import_runs(args.folder, name=args.name):
            print(json_text(_document(each)) if args.json else _line(each), flush=True)
    except Refusal as error:
        return report(error, as_json=args.json, command="torchdeck import")
    return SUCCEEDED


def _line(each: Imported) -> str:
    if each.layout is None:
        return f"left out  {each.name} ({each.program}): {each.why}"
    steps = "" if each.steps is None else f", {each.steps:,} steps"
    saved = f", {each.checkpoints} checkpoint{'s' * (each.checkpoints != 1)}" if each.checkpoints else ""
    done = "updated " if each.updated else "imported"
    return f"{done}  {each.name} ({each.program}{steps}{saved})  {each.layout.root.name}"


def _document(each: Imported) -> dict[str, Any]:
    return {
        "id": each.earlier or None if each.layout is None else each.layout.root.name,
        "name": each.name,
        "program": each.program,
        "folder": str(each.folder),
        "imported": each.layout is not None,
        "why": each.why,
        "steps": each.steps,
        "checkpoints": each.checkpoints,
        "updated": each.updated,
    }
