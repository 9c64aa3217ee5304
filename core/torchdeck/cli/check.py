"""`torchdeck check`: would this run start here, and what stands in its way."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from torchdeck.cli import exit_codes
from torchdeck.cli.problems import print_problems, report
from torchdeck.cli.progress_line import LOOKING, TRACING, progress_line
from torchdeck.cli.run_source import EXAMPLES, add_run_source, load_run_source

if TYPE_CHECKING:
    from torchdeck.config.loader import LoadedConfig
    from torchdeck.launch.preflight import Check
    from torchdeck.launch.prepare import Survey
    from torchdeck.plan.problems import PlanError

_SIGNS = {"ok": "[green]ok[/]     ", "warning": "[yellow]warning[/]", "failed": "[red]failed[/] "}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "check",
        help="look for what would stop a run, without starting it",
        description="Look for what would stop a run, without starting it. Exits with 3 if something would.\n"
        "The model of a recipe is traced once, to know whether it fits the memory.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_source(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Check and print; 0 when nothing failed, 2 for a bad config, 3 when something would fail."""
    from torchdeck.config.problems import ConfigError

    try:
        loaded = load_run_source(args)
    except ConfigError as error:
        return report(error, as_json=args.json)
    checks, misfit = _look(loaded)
    if args.json:
        print(json.dumps(_document(checks, misfit), ensure_ascii=False, indent=1))
    else:
        _print(checks, misfit)
    return exit_codes.SUCCEEDED if _document(checks, misfit)["ok"] else exit_codes.REFUSED


def _look(loaded: LoadedConfig) -> tuple[list[Check], PlanError | None]:
    from torchdeck.launch.preflight import check_memory, preflight
    from torchdeck.launch.preflight.check import failed
    from torchdeck.launch.prepare import plan_from, survey, with_model
    from torchdeck.plan.problems import PlanError
    from torchdeck.runs.home import HomeError, torchdeck_home

    with progress_line(LOOKING) as progress:
        found = survey(loaded.config, on_progress=progress)
    try:
        plan = plan_from(loaded.config, found, loaded.locate)
        home = torchdeck_home()
        checks = preflight(loaded.config, plan, found, home)
        with progress_line(TRACING, 'limits.memory = "off": without it') as progress:
            found = with_model(loaded.config, found, home, progress)
        plan = plan_from(loaded.config, found, loaded.locate)
        return [*checks, *check_memory(loaded.config, plan, found)], None
    except HomeError as error:
        return [failed("home", "localhost", str(error), "")], None
    except PlanError as error:
        return _without_plan(loaded, found), error


def _without_plan(loaded: LoadedConfig, found: Survey) -> list[Check]:
    """What can be looked at where no plan can be made."""
    from torchdeck.launch.preflight import preflight
    from torchdeck.launch.preflight.check import failed
    from torchdeck.runs.home import HomeError, torchdeck_home

    try:
        return preflight(loaded.config, None, found, torchdeck_home())
    except HomeError as error:
        return [failed("home", "localhost", str(error), "")]


def _document(checks: list[Check], misfit: PlanError | None) -> dict[str, Any]:
    problems = () if misfit is None else misfit.problems
    return {
        "checks": [check.to_json() for check in checks],
        "problems": [problem.to_json() for problem in problems],
        "ok": not problems and all(check.status != "failed" for check in checks),
    }


def _print(checks: list[Check], misfit: PlanError | None) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    for check in checks:
        console.print(f"{_SIGNS[check.status]}  {escape(str(check))}")
    if misfit is not None:
        print_problems(misfit.problems)
    failures = sum(check.status == "failed" for check in checks) + (
        0 if misfit is None else len(misfit.problems)
    )
    console.print(_verdict(failures))


def _verdict(failures: int) -> str:
    if not failures:
        return "Nothing is in the way of a start."
    things = "One thing is" if failures == 1 else f"{failures} things are"
    return f"{things} in the way of a start."
