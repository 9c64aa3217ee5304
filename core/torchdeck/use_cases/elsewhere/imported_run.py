"""The run directory of a training that another tool recorded."""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from torchdeck.agent.ranks.file_rows import FileRows
from torchdeck.agent.ranks.script_book import ScriptBook
from torchdeck.contract.atomic import write_json
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.journal import JournalReader, JournalWriter
from torchdeck.contract.layout import Home, RunLayout
from torchdeck.contract.metrics.script_state import ScriptState
from torchdeck.contract.run_states import FinalState, Outcome
from torchdeck.runs.folders.directory import create_run_directory, reveal
from torchdeck.runs.folders.script_checkpoints import ScriptCheckpoint, checkpoints_in
from torchdeck.runs.registry import RunRegistry
from torchdeck.runs.view import IMPORTED
from torchdeck.trainers.reading import Reading
from torchdeck.use_cases.elsewhere.old_runs import OldRun

EARLIEST = 6e8
"""Unix seconds (1989) before which a time is none of a training."""


@dataclass(frozen=True)
class Imported:
    """Result of one run that was found."""

    name: str
    program: str
    folder: Path
    layout: RunLayout | None
    """None: nothing was imported."""
    why: str = ""
    """Why it was not imported, as a clause."""
    earlier: str = ""
    """Id of the run that it already is, unchanged."""
    steps: int | None = None
    checkpoints: int = 0


@dataclass(frozen=True)
class _Recorded:
    """Times and progress of a run, collected while its metrics were written."""

    began: float
    ended: float
    state: ScriptState


def imported_before(home: Path) -> dict[tuple[str, str], str]:
    """Return (folder, content) → id of the runs that were imported."""
    found = {}
    registry = RunRegistry(home)
    for run_id in registry.ids():
        try:
            events = JournalReader(RunLayout(registry.folder / run_id).journal).read_new()
            created = next((event for event in events if event.name == "created"), None)
        except Exception:  # noqa: BLE001, S112 - `runs list` says what is wrong with it
            continue
        seal = created.fields.get("imported") if created is not None else None
        if isinstance(seal, dict):
            found[str(seal.get("folder")), str(seal.get("content"))] = run_id
    return found


def import_run(old: OldRun, name: str, content: str, home: Path, others: Collection[Path]) -> Imported:
    """Write one run to the home.

    Args:
        old: the run.
        name: its name in the list.
        content: of its files, by which it is known again.
        home: TORCHDECK_HOME.
        others: folders of other runs; their checkpoints are not this one's.

    Raises:
        RunDirectoryError: the home cannot be written.
        OSError: the disk is full.
    """
    began = _began(old)
    if began is None:
        return Imported(name, old.program, old.folder, None, "no metrics are in it")
    layout = create_run_directory(Home(home).runs, name, began, hidden=True)
    try:
        recorded = _write_metrics(old, layout, began)
        checkpoints = _checkpoints(old, others)
        # no plan: only where checkpoints of Torchdeck's own would lie, for those who list them
        write_json(layout.plan, {"checkpoint": {"directory": "@{run_dir}/checkpoints"}}, durable=False)
        _write_journals(old, name, content, layout, recorded, checkpoints)
        shown = reveal(layout)
    except BaseException:
        shutil.rmtree(layout.root, ignore_errors=True)
        raise
    return Imported(
        name, old.program, old.folder, shown, steps=recorded.state.step, checkpoints=len(checkpoints)
    )


def _began(old: OldRun) -> float | None:
    """Return the earliest time in the files; None if no metric is in them."""
    times = [_time(reading, file.changed) for file, reading in old.first()]
    return min(times, default=None)


def _time(reading: Reading, changed: float) -> float:
    """Return the time of a reading; that of its file if it has none."""
    now = time.time()
    at = changed if reading.time is None or not EARLIEST <= reading.time <= now else reading.time
    return min(max(at, EARLIEST), now)


def _write_metrics(old: OldRun, layout: RunLayout, began: float) -> _Recorded:
    rank = layout.attempt(1).rank(0)
    rank.metrics.mkdir(parents=True, mode=0o700)
    book, rows = ScriptBook(rank.script), FileRows(rank.metrics)
    ended = began
    for found, reading in old.readings():
        at = _time(reading, found.changed)
        ended = max(ended, at)
        timed = Reading(reading.values, reading.step, reading.total, reading.epoch, at, reading.phase)
        book.take(rows.write(timed, found), "file", found.kind.origin)
    rows.close()
    book.write(now=True)
    return _Recorded(began, ended, book.state)


def _checkpoints(old: OldRun, others: Collection[Path]) -> list[ScriptCheckpoint]:
    if old.trackio is not None:
        return []
    inner = [folder for folder in others if folder != old.folder and folder.is_relative_to(old.folder)]
    return [
        each
        for each in checkpoints_in(old.folder)
        if not any(Path(each.saved.path).is_relative_to(folder) for folder in inner)
    ]


def _write_journals(
    old: OldRun,
    name: str,
    content: str,
    layout: RunLayout,
    recorded: _Recorded,
    checkpoints: list[ScriptCheckpoint],
) -> None:
    # `t`: events have the times of the training, not that of the import
    began, ended = recorded.began, recorded.ended
    with JournalWriter(layout.journal) as journal:
        journal.append(
            "created",
            t=began,
            run_id=layout.root.name.removeprefix("."),
            name=name,
            kind=IMPORTED,
            target=str(old.folder),
            world_size=1,
            imported={"folder": str(old.folder), "content": content, "program": old.program},
        )
    node = layout.node(LOCALHOST)
    node.root.mkdir(parents=True, mode=0o700)
    state, why = _end(old, recorded.state)
    outcome = Outcome.SUCCEEDED if state is FinalState.SUCCEEDED else Outcome.STOPPED
    with JournalWriter(node.journal) as journal:
        journal.append("attempt_started", durable=False, t=began, attempt=1, world_size=1)
        for each in checkpoints:
            saved = each.saved
            ended = max(ended, saved.changed)
            journal.append(
                "checkpoint",
                durable=False,
                t=saved.changed,
                step=saved.step,
                path=saved.path,
                size=saved.size,
                kind=saved.kind.value,
                changed=saved.changed,
            )
        journal.append("attempt_ended", durable=False, t=ended, attempt=1, outcome=outcome.value)
        journal.append("finished", t=ended, state=state.value, why=why, resumable=False)


def _end(old: OldRun, state: ScriptState) -> tuple[FinalState, str]:
    """Return the end as far as the files tell: a run whose end is unknown counts as completed."""
    source = f"imported from {old.program}"
    if state.total is None or state.step is None:
        return FinalState.SUCCEEDED, f"{source}, which does not say how it ended"
    if state.step < state.total:
        return FinalState.CANCELLED, f"{source}; it ended at step {state.step} of {state.total}"
    return FinalState.SUCCEEDED, source
