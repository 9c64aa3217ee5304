"""`torchdeck runs metrics`: show or export the metrics of a run."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.cli.output import USAGE, json_text
from torchdeck.cli.runs.chosen_run import ID_HELP, find_run, reports_refusals
from torchdeck.quantities import size

if TYPE_CHECKING:
    from torchdeck.contract.layout import RunLayout
    from torchdeck.metrics.export import Selection

WHOLE = 1e15
"""Below it a float distinguishes consecutive whole numbers."""
TEXT = ("csv", "jsonl")
FORMATS = (*TEXT, "parquet", "tensorboard")


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "metrics",
        help="show or export the metrics of a run",
        description="Without --format: a table of the metrics and their newest values.",
    )
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="export all rows; parquet and tensorboard need torchdeck[export] and --out",
    )
    parser.add_argument(
        "--out", type=Path, metavar="PATH", help="file or (tensorboard) folder to write; else standard output"
    )
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="NAME",
        help="this metric, or pattern like val_*; repeatable",
    )
    parser.add_argument(
        "--formula",
        action="append",
        default=[],
        metavar="EXPR",
        help='a series computed from metrics, such as exp(loss) or "train/loss" - loss; repeatable; '
        "without --name, formulas alone are shown",
    )
    parser.add_argument(
        "--rank", action="append", default=[], type=int, metavar="R", help="this rank only; repeatable"
    )
    parser.add_argument(
        "--system", action="store_true", help="include the nodes' metrics (CPU, memory, GPUs, ...)"
    )
    parser.add_argument(
        "--effective",
        action="store_true",
        help="leave out rows of steps that a later attempt repeated from a checkpoint",
    )
    parser.add_argument(
        "--goodput",
        action="store_true",
        help="share of the time that trained, what the rest went to, and the energy of the GPUs; "
        "exported with --format csv or jsonl",
    )
    parser.add_argument("--json", action="store_true", help="the table as one JSON array; goodput: an object")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Show or export; 2 if there is nothing of that name, or the export cannot be made."""
    from torchdeck.metrics import RunMetrics
    from torchdeck.metrics.export import ExportError, export, select
    from torchdeck.runs.follower import read_run
    from torchdeck.runs.metric_damage import MetricDamage

    contradiction = _contradiction(args)
    if contradiction is not None:
        print(f"torchdeck: {contradiction}", file=sys.stderr)
        return USAGE
    layout = find_run(args.id)
    if args.goodput:
        return _show_goodput(layout, args)
    metrics = RunMetrics(layout.root)
    metrics.refresh()
    for problem in metrics.problems:
        print(f"torchdeck: left out: {problem}", file=sys.stderr)
    for sentence in MetricDamage(layout).look(sys.maxsize, is_over=read_run(layout).is_over):
        print(f"torchdeck: {sentence}", file=sys.stderr)
    try:
        selection = select(
            metrics, names=args.name, ranks=args.rank, system=args.system, effective=args.effective
        )
        if args.formula:
            from torchdeck.runs.training_progress import roles_of_run

            alone = selection if args.name or args.system else replace(selection, keys=())
            selection = alone.with_formulas(args.formula, lambda: roles_of_run(layout), args.rank)
        if args.format is None:
            _show(selection, as_json=args.json)
        else:
            export(selection, args.format, args.out)
    except ExportError as error:
        print(f"torchdeck: {error}", file=sys.stderr)
        return USAGE
    return 0


def _contradiction(args: argparse.Namespace) -> str | None:
    if args.format is None and args.out is not None:
        return f"--out needs --format: one of {', '.join(FORMATS)}"
    if args.format is not None and args.json:
        return "--json is for the table; for rows as JSON: --format jsonl"
    if args.goodput and (args.name or args.formula or args.rank or args.system or args.effective):
        return "--goodput is of the whole run: it takes no option but --json, --format and --out"
    if args.goodput and args.format not in (None, *TEXT):
        return f"--goodput is exported as {' or '.join(TEXT)}: {args.format} has rows per step"
    return None


def _show_goodput(layout: RunLayout, args: argparse.Namespace) -> int:
    """Print or export how the run's time was spent; 2 if no rank has written a metric, or the file cannot be
    written.
    """
    from torchdeck.metrics.export import ExportError, export_rows
    from torchdeck.runs.follower import read_run
    from torchdeck.runs.goodput.reading import read_goodput
    from torchdeck.runs.goodput.texts import goodput_lines

    found = read_goodput(layout, read_run(layout))
    if found is None:
        print("torchdeck: no rank has written metrics: how the time was spent is not known", file=sys.stderr)
        return USAGE
    if args.format is not None:
        try:
            export_rows(("node", "name", "value"), found.rows(), args.format, args.out)
        except ExportError as error:
            print(f"torchdeck: {error}", file=sys.stderr)
            return USAGE
        return 0
    if args.json:
        print(json_text(found.to_json(), indent=2))
        return 0
    for line in goodput_lines(found):
        print(line)
    return 0


def _show(selection: Selection, *, as_json: bool) -> None:
    table = _table(selection)
    if as_json:
        print(json_text(table, indent=2))
        return
    if not table:
        print("no metrics yet")
        return
    width = max(len(row["name"]) for row in table)
    for row in table:
        whose = f"rank {row['rank']}" if row["node"] is None else row["node"]
        value = _shown(row["name"], row["value"])
        print(f"{row['name']:<{width}}  {whose:<10}  step {row['step']:<10}  {value}")


def _shown(name: str, value: float | str) -> str:
    """Format a value for display: Torchdeck's own bytes as a size, whole numbers in full."""
    if isinstance(value, str):
        return value
    if name.endswith("_bytes"):
        return size(value)
    return f"{value:.0f}" if value.is_integer() and abs(value) < WHOLE else f"{value:.6g}"


def _table(selection: Selection) -> list[dict[str, Any]]:
    """Return the newest row of each series."""
    from torchdeck.metrics.export.formats import json_number

    table = []
    for name, owner in selection.keys:
        latest = selection.latest(name, owner)
        if latest is not None:
            table.append(
                {
                    "name": name,
                    "rank": owner if isinstance(owner, int) else None,
                    "node": owner if isinstance(owner, str) else None,
                    "attempt": latest.attempt,
                    "step": latest.step,
                    "time": latest.time,
                    "value": json_number(latest.value),
                }
            )
    return table
