"""`torchdeck --no-gui`: start a run and watch it."""

from __future__ import annotations

import argparse
from pathlib import Path

from torchdeck.cli.refusals import report
from torchdeck.cli.run_source import load_run_source
from torchdeck.cli.runs.start import start_and_watch
from torchdeck.contract.refusal import Refusal
from torchdeck.use_cases.start import StartRequest


def run_headless(args: argparse.Namespace) -> int:
    """Start the run that the command line names and watch it; the exit code of the whole."""
    if args.plan is not None:
        from torchdeck.use_cases.control import run_controller

        return run_controller(Path(args.plan))
    if args.queue:
        args.overrides = [*args.overrides, "launch.queue=true"]
    try:
        loaded = load_run_source(args)
    except Refusal as error:
        return report(error, as_json=args.json)
    source = str(loaded.path) if args.run_file is not None else ""
    request = StartRequest(loaded, loaded.text, source, tuple(args.overrides), trust=args.trust)
    return start_and_watch(request, detach=args.detach, as_json=args.json)
