"""`torchdeck runs pull`: bring what a run has made on other nodes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.cli.exit_codes import REFUSED, SUCCEEDED
from torchdeck.cli.json_text import json_text
from torchdeck.cli.runs.lookup import ID_HELP, find_run, says_what_is_wrong
from torchdeck.contract.refusal import Refusal
from torchdeck.quantities import size

if TYPE_CHECKING:
    from torchdeck.contract.layout import RunLayout
    from torchdeck.contract.plan.launch_plan import LaunchPlan
    from torchdeck.launching.pull.results import Pulled, Sources

PULLED = "pulled"
"""Folder in the run's directory here for what nodes have made beside checkpoints."""


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


@says_what_is_wrong
def run(args: argparse.Namespace) -> int:
    """Pull; 3 when not all could be brought, 2 when there is no such run."""
    from torchdeck.cli.nodes.asking import terminal_asker
    from torchdeck.cli.nodes.chosen import InTurn
    from torchdeck.contract.atomic import read_json
    from torchdeck.contract.plan.launch_plan import LaunchPlan
    from torchdeck.launching.pull.results import sources_of
    from torchdeck.nodes.connector import Connector
    from torchdeck.nodes.probe.probe_session import ProbeError
    from torchdeck.nodes.ssh.errors import SshError

    layout = find_run(args.id)
    pulled: list[Pulled] = []
    problems: list[str] = []
    home = layout.home.root
    try:
        plan = LaunchPlan.from_json(read_json(layout.plan))
        with sources_of(layout, plan, Connector(home, InTurn(terminal_asker(home)))) as sources:
            problems += sources.refused.values()
            for each in _pulls(args, layout, plan, sources):
                pulled.append(each)
                if not args.json:
                    print(
                        f"{each.what}: {size(each.size)} in {each.path}{'' if each.new else ', here already'}"
                    )
    except (SshError, ProbeError, OSError) as error:
        problems.append(f"{error}; `torchdeck runs pull {args.id}` goes on where this was cut off")
    except Refusal as error:
        problems.append(str(error))
    if args.json:
        print(json_text({"pulled": [asdict(each) for each in pulled], "problems": problems}, indent=1))
    elif not pulled and not problems:
        print("there is nothing to pull: the run's nodes have made nothing that is not here")
    for problem in problems:
        print(f"torchdeck: {problem}", file=sys.stderr)
    return REFUSED if problems else SUCCEEDED


def _pulls(
    args: argparse.Namespace, layout: RunLayout, plan: LaunchPlan, sources: Sources
) -> Iterator[Pulled]:
    from torchdeck.launching.pull.results import NONE, pull_checkpoints, pull_outputs

    to = Path(args.to).expanduser().absolute() if args.to else None
    checkpoints = layout.checkpoints if to is None else to / layout.checkpoints.name
    with transfer_progress() as told:
        if args.checkpoints != NONE:
            yield from pull_checkpoints(sources, plan, layout.root.name, args.checkpoints, checkpoints, told)
        yield from pull_outputs(sources, plan, (to or layout.root) / PULLED, told)


@contextmanager
def transfer_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on standard error for each thing that is read from nodes; nothing off a terminal."""
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
