"""`torchdeck runs list`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from torchdeck.cli.output import json_text
from torchdeck.cli.runs import table
from torchdeck.cli.runs.chosen_run import registry, reports_refusals, whole_number
from torchdeck.cli.runs.fencing import keep_fencing
from torchdeck.contract.journal import NewerFormatError
from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import duration, epochs, metric, moment
from torchdeck.runs import reasons
from torchdeck.runs.folders.notes import known_notes
from torchdeck.runs.registry import RunRegistry, UnreadableRun
from torchdeck.runs.run_list import RunEntry
from torchdeck.runs.run_state import RunState
from torchdeck.runs.table.reading import rows_in_view
from torchdeck.runs.table.row import Row
from torchdeck.runs.table.views import TableView
from torchdeck.runs.training_progress import ProgressReader, TrainingProgress, script_state, time_left
from torchdeck.runs.view import RunView

HEADINGS = (
    "ID",
    "NAME",
    "STATE",
    "STARTED",
    "TOOK",
    "STEP",
    "EPOCH",
    "LOSS",
    "VALIDATION",
    "RATE",
    "LEFT",
)
OPTIONAL = ("VALIDATION", "EPOCH", "RATE")
"""Columns that are shown only if a run has a value there."""
SHORTENING = ("RATE", "EPOCH")
"""Columns that are left out of a terminal that is too narrow for all, in this order."""
GAP = "  "
WITH_LOSS = 100
"""Newest runs whose metrics are read although they are over."""
UNREADABLE = "UNREADABLE"
STATES = (*(state.value for state in RunState), UNREADABLE)
HUNG = ", hung"
"""Shown after the state of a run with ranks that make no progress."""
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
    table.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Print every run that is asked for."""
    runs = registry()
    view = table.view_of(args, runs.folder.parent)
    rows = [] if view is None else _rows(runs.folder.parent, view, args)
    if view is not None and rows and (view.columns is not None or view.group):
        table.print_rows(rows, view, as_json=args.json)
        return 0
    found = _newest(runs, args) if view is None else [_item(row.entry) for row in rows]
    views = [item for item in found if isinstance(item, RunView)]
    for item in views:
        keep_fencing(RunLayout(runs.folder / item.id), item)
    progress = {
        item.id: _progress(runs.folder, item, with_loss=number < WITH_LOSS)
        for number, item in enumerate(views)
    }
    names = {run_id: note.name for run_id, note in known_notes(runs.folder.parent).items() if note.name}
    if args.json:
        print(json_text([_row(item, progress.get(item.id), names) for item in found], indent=1))
        return 0
    if not found:
        print(_nothing(runs, args))
        return 0
    for text in _table([_cells(item, progress.get(item.id), names) for item in found], _room()):
        print(text)
    now = time.time()
    for item in views:
        if item.followed_until is not None:
            what = reasons.unfollowed(now - item.followed_until)
            print(f"{UNFOLLOWED} {item.id}: {what} (torchdeck runs attach {item.id})")
    return 0


def _newest(runs: RunRegistry, args: argparse.Namespace) -> list[RunView | UnreadableRun]:
    """Return the newest runs, pinned ones first; archived ones only if asked for."""
    notes = known_notes(runs.folder.parent)
    pinned = frozenset(run_id for run_id, note in notes.items() if note.pinned)
    archived = frozenset(run_id for run_id, note in notes.items() if note.archived and not args.archived)
    items = runs.newest_first(first=pinned, without=archived)
    return list(islice((item for item in items if args.state in (None, _state(item))), args.limit))


def _rows(home: Path, view: TableView, args: argparse.Namespace) -> list[Row]:
    rows = rows_in_view(home, view)
    return [row for row in rows if args.state in (None, _state(_item(row.entry)))][: args.limit]


def _item(entry: RunEntry) -> RunView | UnreadableRun:
    return UnreadableRun(entry.id, entry.why) if entry.view is None else entry.view


def _nothing(runs: RunRegistry, args: argparse.Namespace) -> str:
    """Return why no run is shown."""
    if not runs.ids():
        return "there are no runs yet; `torchdeck init` writes a first run.toml"
    if args.where is not None:
        return f"no run fulfils {args.where}"
    if args.state is not None:
        return f"no run is {args.state}"
    return "no run is shown; --archived shows archived runs, too"


def _room() -> int | None:
    """Return the characters of a line; None without a limit: a file or pipe takes lines of any length."""
    limited = sys.stdout.isatty() or "COLUMNS" in os.environ
    return shutil.get_terminal_size().columns if limited else None


def _table(cells: Sequence[Sequence[str]], room: int | None) -> list[str]:
    """Return the heading and one line per run, with the optional columns that have values and fit.

    Args:
        cells: one text per heading for each run.
        room: characters of a line; None: no limit.
    """
    columns = {
        heading: [heading, *texts]
        for heading, texts in zip(HEADINGS, zip(*cells, strict=True), strict=True)
        if heading not in OPTIONAL or any(text.strip("-") for text in texts)
    }
    widths = {heading: max(map(len, texts)) for heading, texts in columns.items()}
    for heading in SHORTENING:
        if room is not None and sum(widths.values()) + len(GAP) * (len(widths) - 1) > room:
            widths.pop(heading, None)
    shown = [[text.ljust(width) for text in columns[heading]] for heading, width in widths.items()]
    return [GAP.join(row).rstrip() for row in zip(*shown, strict=True)]


def _state(item: RunView | UnreadableRun) -> str:
    return UNREADABLE if isinstance(item, UnreadableRun) else item.state.value


def _progress(folder: Path, item: RunView, *, with_loss: bool) -> TrainingProgress | None:
    """Return the progress of a run that trains now; of a script that is over, where it ended."""
    layout = RunLayout(folder / item.id)
    trains = item.state in (RunState.RUNNING, RunState.STOPPING)
    if trains or (with_loss and item.kind != "recipe"):
        try:
            return ProgressReader(layout).read(item)
        except (OSError, NewerFormatError):
            return None  # `runs show` says what cannot be read
    script = None if item.kind == "recipe" else script_state(layout, item.world_size or 1)
    return None if script is None else TrainingProgress("", script.step, script.total, epoch=script.epoch)


def _row(
    item: RunView | UnreadableRun, progress: TrainingProgress | None, names: Mapping[str, str]
) -> dict[str, Any]:
    if isinstance(item, UnreadableRun):
        nothing = dict.fromkeys(("name", "created", "started", "ended"))
        return {"id": item.id, **nothing, "state": UNREADABLE, "why": item.why}
    step = _step(item, progress)
    return {
        "id": item.id,
        "name": names.get(item.id, item.name),
        "state": item.state.value,
        "hung": item.is_hung,
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


def _cells(
    item: RunView | UnreadableRun, progress: TrainingProgress | None, names: Mapping[str, str]
) -> tuple[str, ...]:
    if isinstance(item, UnreadableRun):
        return (item.id, "-", UNREADABLE, item.why, *("" for _ in HEADINGS[4:]))
    step = _step(item, progress)
    known = TrainingProgress("", step, None) if progress is None else progress
    total = "" if known.total is None else f"/{known.total}"
    followed = item.followed_until is None
    return (
        item.id,
        names.get(item.id, item.name),
        _state_text(item, known),
        moment(item.started),
        _took(item),
        "-" if step is None else f"{step}{total}",
        "-" if known.epoch is None else epochs(known.epoch),
        "-" if known.loss is None else metric(known.loss),
        "-" if known.validation_loss is None else metric(known.validation_loss),
        (known.throughput if followed else "") or "-",
        "-" if known.eta is None or not followed else time_left(known.eta),
    )


def _state_text(item: RunView, progress: TrainingProgress) -> str:
    """Return `RUNNING`, `RUNNING, evaluating`, `RUNNING, hung` or, as of the last report, `RUNNING?`."""
    if item.followed_until is not None:
        return f"{item.state_word}{HUNG if item.is_hung else ''}{UNFOLLOWED}"
    if item.is_hung:
        return f"{item.state_word}{HUNG}"
    phase = "" if item.is_over else progress.other_phase
    return f"{item.state_word}, {phase}" if phase and phase != item.state.lower() else item.state_word


def _took(item: RunView) -> str:
    """Return its duration; while it runs, the time since its start, or until the last report of it."""
    ended = item.ended if item.is_over else item.followed_until or time.time()
    return duration(max(0.0, ended - item.started)) if ended and item.started else "-"


def _step(item: RunView, progress: TrainingProgress | None) -> int | None:
    """Return the step of training; for a run that is over, that of its last checkpoint if nothing else."""
    if progress is not None and progress.step is not None:
        return progress.step
    if item.ranks and item.ranks[0].step is not None and (item.ranks[0].step or item.kind == "recipe"):
        return item.ranks[0].step  # a script that reports nothing has no step, not step 0
    return item.checkpoint.step if item.checkpoint is not None else None
