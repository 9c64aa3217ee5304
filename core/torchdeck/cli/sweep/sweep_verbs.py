"""Handlers of the commands of `torchdeck sweep`."""

from __future__ import annotations

import argparse
import sys

from torchdeck.cli.output import RUN_FAILED, STOPPED, SUCCEEDED, json_text
from torchdeck.cli.refusals import reports_refusals
from torchdeck.cli.run_source import load_run_source
from torchdeck.cli.sweep.trial_table import trial_table
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.home import torchdeck_home
from torchdeck.sweeps.decisions import RunKey
from torchdeck.sweeps.sweep_layout import SweepLayout
from torchdeck.sweeps.sweep_state import SweepState
from torchdeck.sweeps.sweep_text import (
    best_sentence,
    counts_sentence,
    importance_lines,
    run_sentence,
    sweep_json,
    trial_json,
)
from torchdeck.sweeps.trials import Outcome
from torchdeck.use_cases.sweeps.begin import SweepStart, begin_sweep
from torchdeck.use_cases.sweeps.changes import extend as extend_sweep
from torchdeck.use_cases.sweeps.changes import request_resume, request_stop
from torchdeck.use_cases.sweeps.detached import start_driver
from torchdeck.use_cases.sweeps.driver import SweepBusyError, SweepDriver
from torchdeck.use_cases.sweeps.listing import ListedSweep, find_sweep, list_sweeps, look_at

OPTIONS = (
    "strategy", "trials", "metric", "direction", "prune", "prune_after", "prune_factor", "seeds", "seed",
    "at_once",
)  # fmt: skip
"""Options of a new sweep that are keys of [sweep], by their names there."""


@reports_refusals
def start(args: argparse.Namespace) -> int:
    """Start a sweep and drive it."""
    nproc = [] if args.nproc is None else [f"distributed.nproc={args.nproc}"]
    overrides = (*args.overrides, *nproc)
    options = {name: getattr(args, name) for name in OPTIONS}
    args.overrides += [f"sweep.{name}={value}" for name, value in options.items() if value is not None]
    loaded = load_run_source(args)
    is_file = args.run_file is not None
    layout = begin_sweep(SweepStart(loaded, tuple(args.over), is_file, overrides, trust=args.trust))
    if args.detach:
        return _leave(layout, as_json=args.json)
    print(json_text({"event": "sweep", "id": layout.id}) if args.json else f"sweep {layout.id}", flush=True)
    return _drive(layout, as_json=args.json)


@reports_refusals
def resume(args: argparse.Namespace) -> int:
    """Continue a sweep."""
    layout = find_sweep(torchdeck_home(), args.id)
    request_resume(layout)
    return _leave(layout, as_json=args.json) if args.detach else _drive(layout, as_json=args.json)


@reports_refusals
def extend(args: argparse.Namespace) -> int:
    """Add trials or change values; drive the sweep unless another process does."""
    layout = find_sweep(torchdeck_home(), args.id)
    extend_sweep(layout, args.trials, args.over)
    try:
        if not look_at(layout).is_driven:
            return _leave(layout, as_json=args.json) if args.detach else _drive(layout, as_json=args.json)
    except SweepBusyError:  # another process began to drive it meanwhile
        pass
    if not args.json:
        print(f"sweep {layout.id} is running and takes it up")
    return SUCCEEDED


@reports_refusals
def stop(args: argparse.Namespace) -> int:
    """Stop a sweep; returns when its runs are over, or at once if another process sees to it."""
    layout = find_sweep(torchdeck_home(), args.id)
    request_stop(layout)
    try:
        _drive(layout, as_json=args.json)
    except SweepBusyError:
        if not args.json:
            print(f"sweep {layout.id}: the process that drives it stops its runs")
    return SUCCEEDED


def _leave(layout: SweepLayout, *, as_json: bool) -> int:
    start_driver(layout)
    print(json_text({"id": layout.id, "directory": str(layout.root)}) if as_json else layout.id)
    return SUCCEEDED


def _drive(layout: SweepLayout, *, as_json: bool) -> int:
    def tell(state: SweepState, key: RunKey) -> None:
        trial = state.trial(key.trial)
        text = run_sentence(state, trial, key.seed)
        print(
            json_text({"event": "trial", "text": text, **trial_json(trial)}) if as_json else text, flush=True
        )

    try:
        state = SweepDriver(layout, TerminalUi(), tell).drive()
    except KeyboardInterrupt:
        text = f"runs of the sweep continue; `torchdeck sweep resume {layout.id}` takes them up"
        print(f"torchdeck: {text}", file=sys.stderr)
        return STOPPED
    if as_json:
        print(json_text({"event": "end", **sweep_json(state, look_at(layout).status)}))
    else:
        print(f"{counts_sentence(state)}; {best_sentence(state)}")
    if state.is_stopping:
        return STOPPED
    return SUCCEEDED if state.count(Outcome.COMPLETE) else RUN_FAILED


@reports_refusals
def list_all(args: argparse.Namespace) -> int:
    """List sweeps."""
    found = list_sweeps(torchdeck_home())
    if args.json:
        print(json_text([_row(each) for each in found], indent=1))
        return SUCCEEDED
    for each in found:
        text = (
            each.why if each.state is None else f"{counts_sentence(each.state)}; {best_sentence(each.state)}"
        )
        print(f"{each.layout.id}  {each.status}  {text}")
    if not found:
        print("no sweeps yet; `torchdeck sweep RUN.toml --over KEY=VALUES --metric NAME` starts one")
    return SUCCEEDED


def _row(each: ListedSweep) -> dict[str, object]:
    if each.state is None:
        return {"id": each.layout.id, "status": each.status, "why": each.why}
    document = sweep_json(each.state, each.status)
    return {name: value for name, value in document.items() if name not in ("trials", "best_so_far")}


@reports_refusals
def show(args: argparse.Namespace) -> int:
    """Show one sweep."""
    found = look_at(find_sweep(torchdeck_home(), args.id))
    if found.state is None:
        raise Refusal(f"sweep {found.layout.id} cannot be read", found.why)
    state = found.state
    if args.json:
        print(json_text(sweep_json(state, found.status), indent=1))
        return SUCCEEDED
    print(f"sweep {state.id}: {found.status}")
    print(f"{state.request.strategy} over {', '.join(each.text for each in state.space)}")
    print(f"{counts_sentence(state)}, {state.steps:,} steps")
    print(best_sentence(state))
    for line in (*trial_table(state), *importance_lines(state)):
        print(line)
    return SUCCEEDED
