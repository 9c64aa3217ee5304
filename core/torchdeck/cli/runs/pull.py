"""`torchdeck runs pull`: copy files that a run wrote on other nodes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.cli.output import REFUSED, SUCCEEDED, json_text
from torchdeck.cli.runs.chosen_run import ID_HELP, find_run, reports_refusals
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.quantities import size

if TYPE_CHECKING:
    from torchdeck.use_cases.pull import Pulled


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "pull",
        help="copy checkpoints and other results of a run from its nodes",
        description="An interrupted transfer continues where it stopped. Checkpoints are verified by their "
        "hashes, and parts from several nodes become one. Exits with 3 if a node or part is "
        "missing.",
    )
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument(
        "--checkpoints",
        nargs="?",
        const="latest",
        default="latest",
        metavar="STEP|latest|all|none",
        help="which checkpoints (default: latest)",
    )
    parser.add_argument("--to", metavar="DIR", help="destination folder; default: the run's directory here")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Pull; 3 if not all could be copied, 2 if there is no such run."""
    from torchdeck.use_cases.pull import PullRequest, pull

    def say(each: Pulled) -> None:
        if not args.json:
            print(f"{each.what}: {size(each.size)} in {each.path}{'' if each.new else ', here already'}")

    to = Path(args.to).expanduser().absolute() if args.to else None
    found = pull(PullRequest(find_run(args.id), args.checkpoints, to), TerminalUi(), say, transfer_progress())
    if args.json:
        pulled = [asdict(each) for each in found.pulled]
        print(json_text({"pulled": pulled, "problems": list(found.problems)}, indent=1))
    elif not found.pulled and not found.problems:
        print("there is nothing to pull: everything that the run's nodes have is already here")
    for problem in found.problems:
        print(f"torchdeck: {problem}", file=sys.stderr)
    return REFUSED if found.problems else SUCCEEDED


@contextmanager
def transfer_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar on standard error for each transfer from nodes; nothing off a terminal."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

    from torchdeck.cli.console import make_console

    console = make_console(to_stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    bars: dict[str, TaskID] = {}
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:

        def told(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=total)
            progress.update(bars[what], completed=done)

        yield told
