"""`torchdeck runs list`."""

from __future__ import annotations

import argparse
import time
from itertools import islice
from pathlib import Path
from typing import Any

from torchdeck.cli.output import json_text
from torchdeck.cli.runs.fencing import keep_fencing
from torchdeck.cli.runs.lookup import registry, says_what_is_wrong, whole_number
from torchdeck.contract.journal import NewerFormatError
from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import duration, metric, moment
from torchdeck.runs import reasons
from torchdeck.runs.registry import UnreadableRun
from torchdeck.runs.script_progress import script_state
from torchdeck.runs.state import RunState
from torchdeck.runs.training_progress import ProgressReader, TrainingProgress
from torchdeck.runs.training_progress_estimates import time_left
from torchdeck.runs.view import RunView

HEADINGS = ("ID", "NAME", "STATE", "STARTED", "TOOK", "STEP", "LOSS", "LEFT")
UNREADABLE = "UNREADABLE"
STATES = (*(state.value for state in RunState), UNREADABLE)
UNFOLLOWED = "?"
"""Shown after the state of a run without a controller here: the state is as old as the last report."""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("list", help="list runs and their states, the newest first")
    parser.add_argument("--limit", type=whole_number, metavar="N", help="at most N runs, the newest")
    parser.add_argument(
        "--state",
        type=str.upper,
        choices=STATES,
        metavar="STATE",
        help=f"only runs in a state: {', '.join(STATES)}",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.set_defaults(handler=run)


@says_what_is_wrong
def run(args: argparse.Namespace) -> int:
    """Print every run."""
    runs = registry()
    wanted = (item for item in runs.newest_first() if args.state in (None, _state(item)))
    found = list(islice(wanted, args.limit))
    for item in found:
        if isinstance(item, RunView):
            keep_fencing(RunLayout(runs.folder / item.id), item)
    progress = {item.id: _progress(runs.folder, item) for item in found if isinstance(item, RunView)}
    if args.json:
        print(json_text([_row(item, progress.get(item.id)) for item in found], indent=1))
        return 0
    if not found:
        if runs.ids():
            print("no run is shown" if args.state is None else f"no run is {args.state}")
        else:
            print("there are no runs yet; `torchdeck init` writes a first run.toml")
        return 0
    rows = [HEADINGS, *(_cells(item, progress.get(item.id)) for item in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    now = time.time()
    for item in found:
        if isinstance(item, RunView) and item.followed_until is not None:
            what = reasons.unfollowed(now - item.followed_until)
            print(f"{UNFOLLOWED} {item.id}: {what} (torchdeck runs attach {item.id})")
    return 0


def _state(item: RunView | UnreadableRun) -> str:
    return UNREADABLE if isinstance(item, UnreadableRun) else item.state.value


def _progress(folder: Path, item: RunView) -> TrainingProgress | None:
    """Return the progress of a run that trains now; of a script that is over, its last step and total."""
    layout = RunLayout(folder / item.id)
    if item.state in (RunState.RUNNING, RunState.STOPPING):
        try:
            return ProgressReader(layout).read(item)
        except (OSError, NewerFormatError):
            return None  # `runs show` says what cannot be read
    script = None if item.kind == "recipe" else script_state(layout, item.world_size or 1)
    return None if script is None else TrainingProgress("", script.step, script.total, epoch=script.epoch)


def _row(item: RunView | UnreadableRun, progress: TrainingProgress | None) -> dict[str, Any]:
    if isinstance(item, UnreadableRun):
        nothing = dict.fromkeys(("name", "created", "started", "ended"))
        return {"id": item.id, **nothing, "state": UNREADABLE, "why": item.why}
    step = _step(item, progress)
    return {
        "id": item.id,
        "name": item.name,
        "state": item.state.value,
        "why": item.why,
        "created": item.created,
        "started": item.started,
        "ended": item.ended,
        "attempt": item.attempt,
        "world_size": item.world_size,
        "target": item.target,
        "step": step,
        "total": None if progress is None else progress.total,
        "progress": None if progress is None else progress.to_json(),
        "resumable": item.resumable,
        "followed_until": item.followed_until,
    }


def _cells(item: RunView | UnreadableRun, progress: TrainingProgress | None) -> tuple[str, ...]:
    if isinstance(item, UnreadableRun):
        return item.id, "-", UNREADABLE, item.why, "", "", "", ""
    took = duration(item.ended - item.started) if item.ended and item.started else "-"
    step = _step(item, progress)
    total = "" if progress is None or progress.total is None else f"/{progress.total}"
    shown = "-" if step is None else f"{step}{total}"
    loss = "-" if progress is None or progress.loss is None else metric(progress.loss)
    left = "-" if progress is None or progress.eta is None else time_left(progress.eta)
    state = item.state.value if item.followed_until is None else f"{item.state.value}{UNFOLLOWED}"
    return item.id, item.name, state, moment(item.started), took, shown, loss, left


def _step(item: RunView, progress: TrainingProgress | None) -> int | None:
    """Return the step of training; for a run that is over, that of its last checkpoint if nothing else."""
    if progress is not None and progress.step is not None:
        return progress.step
    if item.ranks and item.ranks[0].step is not None:
        return item.ranks[0].step
    return item.checkpoint.step if item.checkpoint is not None else None
