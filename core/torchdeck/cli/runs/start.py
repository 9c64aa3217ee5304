"""Start a run and watch it, or watch one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from torchdeck.cli.output import SUCCEEDED, USAGE, json_text
from torchdeck.cli.refusals import print_pages, refuse, report
from torchdeck.cli.run_source import load_run_source
from torchdeck.cli.signals import FrontEndSignals
from torchdeck.cli.terminal_ui import WITHOUT_MEMORY, TerminalUi
from torchdeck.contract.refusal import Refusal
from torchdeck.use_cases.start import StartRequest, start

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.contract.layout import RunLayout


def start_and_watch(request: StartRequest, *, detach: bool, as_json: bool) -> int:
    """Start a run, and watch it unless it is to be left to itself; the exit code."""
    from torchdeck.config.problems import ConfigError

    signals = FrontEndSignals()
    with ExitStack() as stack:
        # from the start on Ctrl-C means the run, and no longer this process alone
        ui = TerminalUi(WITHOUT_MEMORY, before_start=lambda: stack.enter_context(signals))
        try:
            started = start(request, ui)
        except ConfigError as error:
            return report(error, as_json=as_json)
        except Refusal as error:
            code = refuse([str(part) for part in error.parts()], as_json=as_json)
            if not as_json:
                print_pages(error)
            return code
        if detach:
            return _leave(started.layout, as_json=as_json)
        _warn(started.warnings, as_json=as_json)
        return watch_run(started.layout, started.controller, signals, as_json=as_json)


def watch_run(
    layout: RunLayout,
    controller: DetachedProcess | None,
    signals: FrontEndSignals,
    *,
    as_json: bool,
    after_attempt: int = 0,
) -> int:
    """Show a run until it is over, with the output of attempts after `after_attempt`; the exit code that says
    how it ended.
    """
    from torchdeck.cli.runs.watch import Watch, display_for
    from torchdeck.contract.journal import NewerFormatError

    try:
        display = display_for(layout.root.name, as_json=as_json, attached=signals.attached)
        return Watch(layout, display, signals, controller, after_attempt=after_attempt).run()
    except NewerFormatError as error:
        print(f"torchdeck: {error}", file=sys.stderr)
        return USAGE


def _warn(warnings: Sequence[str], *, as_json: bool) -> None:
    for warning in warnings:
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


def run_headless(args: argparse.Namespace) -> int:
    """Start the run that the command line names and watch it; the exit code of the whole."""
    if args.queue:
        args.overrides = [*args.overrides, "launch.queue=true"]
    try:
        loaded = load_run_source(args)
    except Refusal as error:
        return report(error, as_json=args.json)
    source = str(loaded.path) if args.run_file is not None else ""
    request = StartRequest(loaded, loaded.text, source, tuple(args.overrides), trust=args.trust)
    return start_and_watch(request, detach=args.detach, as_json=args.json)
