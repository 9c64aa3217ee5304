"""`torchdeck check`: would this run start here, and what stands in its way."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from torchdeck.cli import exit_codes
from torchdeck.cli.check_matrix import print_matrix
from torchdeck.cli.json_text import json_text
from torchdeck.cli.nodes.connector import looks_for
from torchdeck.cli.progress_line import LOOKING, TRACING, progress_line
from torchdeck.cli.refusals import print_problems, report
from torchdeck.cli.run_source import EXAMPLES, add_run_source, load_run_source
from torchdeck.cli.trusting import TRUST_HELP, trust_run_source
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.refusal import Refusal

if TYPE_CHECKING:
    from torchdeck.config.loader import LoadedConfig
    from torchdeck.launching.preflight import Check
    from torchdeck.launching.prepare import Survey
    from torchdeck.nodes.connector import Connector
    from torchdeck.plan.problems import PlanError

TRYING = "trying torchrun and an all-reduce on the nodes"
_SIGNS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "failed": ("failed", "red")}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "check",
        help="look for what would stop a run, without starting it",
        description="Look for what would stop a run, without starting it. Exits with 3 if something would.\n"
        "The model of a recipe is traced once, to know whether it fits the memory. On other nodes torchrun\n"
        "and an all-reduce are tried for some seconds; what was measured is remembered.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_source(parser)
    parser.add_argument("--quick", action="store_true", help="start nothing on the nodes")
    parser.add_argument("--again", action="store_true", help="measure the nodes though nothing has changed")
    parser.add_argument("--trust", action="store_true", help=TRUST_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Check and print; 0 when nothing failed, 2 for a bad config, 3 when something would fail."""
    try:
        loaded = load_run_source(args)
        if args.trust:
            trust_run_source(loaded)
    except Refusal as error:
        return report(error, as_json=args.json)
    checks, misfit = _look(loaded, quick=args.quick, again=args.again)
    if args.json:
        print(json_text(_document(checks, misfit), indent=1))
    else:
        _print(checks, misfit)
    return exit_codes.SUCCEEDED if _document(checks, misfit)["ok"] else exit_codes.REFUSED


def _look(loaded: LoadedConfig, *, quick: bool, again: bool) -> tuple[list[Check], PlanError | None]:
    from torchdeck.launching.all_checks import all_checks
    from torchdeck.launching.prepare import survey
    from torchdeck.plan.check import failed
    from torchdeck.runs.home import HomeError, torchdeck_home

    looks = looks_for(loaded.config)
    with progress_line(LOOKING) as progress:
        found = survey(loaded.config, on_progress=progress, looks=looks, files=loaded.files)
    try:
        home = torchdeck_home()
    except HomeError as error:
        return [failed("home", "localhost", error.finding, error.fix)], None
    with progress_line(TRACING, 'limits.memory = "off": without it') as progress:
        reach = None if looks is None else looks.reach
        checks, misfit = all_checks(loaded.config, found, home, loaded.locate, progress, loaded.files, reach)
    if reach is None or quick or misfit is not None or not found.remote.names:
        return checks, misfit
    return [*checks, *_further(loaded, found, reach, checks, again=again)], None


def _further(
    loaded: LoadedConfig, found: Survey, reach: Connector, checks: list[Check], *, again: bool
) -> list[Check]:
    """What takes seconds: torchrun on the nodes."""
    from torchdeck.launching.preflight.remote.further import check_further
    from torchdeck.launching.prepare import plan_from

    plan = plan_from(loaded.config, found, loaded.locate)
    if plan.world_size < 2:
        return []
    with progress_line(TRYING, "--quick goes without it") as progress:
        progress("torchrun begins")
        return check_further(plan, found, reach, checks, again=again)


def _document(checks: list[Check], misfit: PlanError | None) -> dict[str, Any]:
    problems = () if misfit is None else misfit.problems
    return {
        "checks": [check.to_json() for check in checks],
        "problems": [problem.to_json() for problem in problems],
        "ok": not problems and all(check.status != "failed" for check in checks),
    }


def _print(checks: list[Check], misfit: PlanError | None) -> None:
    from rich.text import Text

    from torchdeck.cli.console import make_console

    console = make_console(soft_wrap=True)
    if any(check.node != LOCALHOST for check in checks):
        print_matrix(console, checks)
    else:
        for check in checks:
            word, colour = _SIGNS[check.status]
            console.print(Text.assemble((f"{word:<7}", colour), f"  {check}"))
    if misfit is not None:
        print_problems(misfit.parts())
    failures = sum(check.status == "failed" for check in checks) + (
        0 if misfit is None else len(misfit.problems)
    )
    console.print(_verdict(failures))


def _verdict(failures: int) -> str:
    if not failures:
        return "Nothing is in the way of a start."
    things = "One thing is" if failures == 1 else f"{failures} things are"
    return f"{things} in the way of a start."
