"""`torchdeck runs report`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from torchdeck.cli.output import SUCCEEDED, json_text
from torchdeck.cli.runs.chosen_run import ID_HELP, find_run, registry, reports_refusals
from torchdeck.contract.refusal import Refusal


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "report",
        help="write one HTML file about runs, with plots",
        description="Write one HTML file about one or several runs, to be read without Torchdeck: plots, "
        "result, differing settings, configuration and notes. It has no scripts and needs no other file.",
    )
    parser.add_argument("ids", metavar="ID", nargs="+", help=ID_HELP)
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", default=Path("report.html"))
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Write it; 2: no such run, or the file cannot be written."""
    from torchdeck.runs.table.reading import read_rows
    from torchdeck.use_cases.table.report import write_report

    target = args.out.absolute()
    if target.exists() and not args.force:
        raise Refusal(f"{args.out} exists", fix="--force replaces it, -o names another file")
    ids = list(dict.fromkeys(find_run(asked).root.name for asked in args.ids))
    rows = {row.entry.id: row for row in read_rows(registry().folder.parent)}
    write_report([rows[run_id] for run_id in ids], target)
    print(json_text({"file": str(target), "runs": ids}) if args.json else f"wrote {args.out}")
    return SUCCEEDED
