"""`torchdeck queue serve`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from torchdeck.cli.output import SUCCEEDED, json_text
from torchdeck.cli.refusals import reports_refusals
from torchdeck.runs.home import torchdeck_home


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "serve",
        help="start what is queued, until SIGTERM or Ctrl-C",
        description="Start queued runs when their devices are free, until SIGTERM or Ctrl-C. Runs outlive "
        "it. A home has one server.",
    )
    parser.add_argument(
        "--unit", action="store_true", help="print a systemd user unit that serves the queue, and exit"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes; 3 if another server runs."""
    home = torchdeck_home()
    if args.unit:
        from torchdeck.cli.queue.systemd_unit import unit_text

        command = [sys.executable, "-P", "-m", "torchdeck.cli.main", "queue", "serve"]
        print(unit_text(home, command), end="")
        return SUCCEEDED
    from torchdeck.use_cases.queue.serving import serve_until_signal

    def report(text: str) -> None:
        print(json_text({"event": text}) if args.json else text, flush=True)

    serve_until_signal(home, report)
    return SUCCEEDED
