"""`torchdeck --no-gui`: validate, plan, check, start, watch."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.cli.ahead import Ahead, knocking_ahead
from torchdeck.cli.exit_codes import SUCCEEDED, USAGE
from torchdeck.cli.json_text import json_text
from torchdeck.cli.nodes.connector import reach_for
from torchdeck.cli.progress_line import TRACING, progress_line
from torchdeck.cli.refusals import refuse, report
from torchdeck.cli.run_source import load_run_source
from torchdeck.cli.signals import FrontEndSignals
from torchdeck.contract.refusal import Refusal

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.config.loader import LoadedConfig
    from torchdeck.contract.layout import RunLayout
    from torchdeck.contract.plan.launch_plan import LaunchPlan
    from torchdeck.launching.control.early_controller import EarlyController
    from torchdeck.launching.preflight import Check
    from torchdeck.nodes.connector import Connector


def run_headless(args: argparse.Namespace) -> int:
    """Start the run that the command line names and watch it; the exit code of the whole."""
    if args.plan is not None:
        from torchdeck.launching.control.controller import run_controller

        return run_controller(Path(args.plan))
    from torchdeck.config.problems import ConfigError

    if args.queue:
        args.overrides = [*args.overrides, "launch.queue=true"]
    try:
        with knocking_ahead(args) as ahead:
            return _launch(args, load_run_source(args), ahead)
    except ConfigError as error:
        return report(error, as_json=args.json)


def start_loaded(args: argparse.Namespace, loaded: LoadedConfig) -> int:
    """Start the run that `loaded` describes, and watch it unless `args` says otherwise; the exit code."""
    return _launch(args, loaded, None)


def _launch(args: argparse.Namespace, loaded: LoadedConfig, ahead: Ahead | None) -> int:
    from torchdeck.config.chosen_nodes import is_here_alone
    from torchdeck.config.problems import ConfigError

    # light: what takes long to import is imported while nodes log in
    from torchdeck.launching.chosen_nodes import knocking
    from torchdeck.launching.control.early_controller import early_controller
    from torchdeck.runs.home import torchdeck_home

    try:
        home = torchdeck_home()
        if args.trust:
            from torchdeck.launching.checked_plan import trust_code

            trust_code(loaded.config, home, loaded.files)
        if ahead is not None and not is_here_alone(loaded.config):
            return _start(args, loaded, home, ahead.reach, ahead.talks(), ahead.early)
        with early_controller(loaded.config, home, copied=True) as early:
            reach = reach_for(loaded.config, home)
            return _start(args, loaded, home, reach, knocking(loaded.config, reach, early), early)
    except ConfigError:
        raise
    except Refusal as error:
        return refuse([str(part) for part in error.parts()], as_json=args.json)


def _start(
    args: argparse.Namespace,
    loaded: LoadedConfig,
    home: Path,
    reach: Connector | None,
    talks: AbstractContextManager[Connector | None],
    early: EarlyController | None,
) -> int:
    plan, checks, shipped = _checked(loaded, home, talks)
    from torchdeck.launching.launcher import Intent, start_run

    source = str(loaded.path) if args.run_file is not None else ""
    intent = Intent(loaded.text, source, tuple(args.overrides))
    # from here on Ctrl-C means the run, and no longer this process alone
    with FrontEndSignals() as signals:
        logins = None if reach is None else reach.credentials.to_json()
        layout, controller = start_run(plan, intent, home, logins=logins, early=early, shipped=shipped)
        if args.detach:
            return _leave(layout, as_json=args.json)
        _warn([*plan.warnings, *_warnings(checks)], as_json=args.json)
        return watch_run(layout, controller, signals, as_json=args.json)


def _checked(
    loaded: LoadedConfig, home: Path, talks: AbstractContextManager[Connector | None]
) -> tuple[LaunchPlan, list[Check], Path | None]:
    """What `checked_plan` gives, and the shipped folder where that could be made while nodes log in."""
    with talks as kept:
        from torchdeck.launching.checked_plan import checked_plan
        from torchdeck.launching.shipping import ship

        shipped = None if kept is None else ship(home)
        with progress_line(TRACING, 'limits.memory = "off": without it') as progress:
            found = checked_plan(loaded.config, home, loaded.locate, progress, loaded.files, kept)
        return *found, shipped


def watch_run(
    layout: RunLayout, controller: DetachedProcess | None, signals: FrontEndSignals, *, as_json: bool
) -> int:
    """Show a run until it is over; the exit code that says how it ended."""
    from torchdeck.cli.runs.watch import Watch, display_for
    from torchdeck.contract.journal import NewerFormatError

    try:
        display = display_for(layout.root.name, as_json=as_json, attached=signals.attached)
        return Watch(layout, display, signals, controller).run()
    except NewerFormatError as error:
        print(f"torchdeck: {error}", file=sys.stderr)
        return USAGE


def _warnings(checks: list[Check]) -> list[str]:
    return [str(check) for check in checks if check.status == "warning"]


def _warn(warnings: list[str], *, as_json: bool) -> None:
    for warning in dict.fromkeys(warnings):
        if as_json:
            print(json_text({"event": "warning", "text": warning}))
        else:
            print(f"torchdeck: warning: {warning}", file=sys.stderr)


def _leave(layout: RunLayout, *, as_json: bool) -> int:
    if as_json:
        print(json_text({"id": layout.root.name, "directory": str(layout.root)}))
    else:
        print(layout.root.name)
    return SUCCEEDED
