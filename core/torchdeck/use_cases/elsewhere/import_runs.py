"""Import of runs that other tools recorded: TensorBoard, wandb offline, trackio, Lightning, Hugging Face."""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from torchdeck.agent.ranks.file_rows import FileRows, repeats_written
from torchdeck.agent.ranks.script_book import ScriptBook
from torchdeck.contract.atomic import write_json
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.journal import JournalReader, JournalWriter
from torchdeck.contract.layout import Home, RunLayout
from torchdeck.contract.metrics.script_state import ScriptState
from torchdeck.contract.refusal import Refusal
from torchdeck.contract.run_states import FinalState, Outcome
from torchdeck.runs.folders.checkpoints import ScriptCheckpoint, checkpoints_in, script_checkpoints
from torchdeck.runs.folders.run_directory import create_run_directory, reveal
from torchdeck.runs.follower import read_run
from torchdeck.runs.home import torchdeck_home
from torchdeck.runs.registry import RunRegistry
from torchdeck.runs.view import IMPORTED
from torchdeck.trainers.files.old_runs import OldRun, find_old_runs
from torchdeck.trainers.reading import Reading

__all__ = ["ImportRefusedError", "Imported", "import_runs"]
_KNOWN = (
    "event files of TensorBoard, run-*.wandb, databases of trackio and MLflow, Lightning's metrics.csv, "
    "trainer_state.json"
)


class ImportRefusedError(Refusal):
    """There is nothing to import; the message names the searched folder."""

    page = "start/running#import-finished-trainings"

    is_usage = True


def import_runs(folder: Path, *, name: str = "", home: Path | None = None) -> Iterator[Imported]:
    """Import each run below a folder; yields each as soon as it is done.

    Args:
        folder: it and the folders in it are only read.
        name: beginning of the runs' names. Default: the folder's name.
        home: TORCHDECK_HOME. Default: the usual one.

    Raises:
        Refusal: there is no such folder, no run in it, or the home cannot be written.
    """
    folder = folder.expanduser().absolute()
    if not folder.is_dir():
        raise ImportRefusedError(f"there is no folder {folder}")
    folder = folder.resolve()
    if len(folder.parts) < 3:
        raise ImportRefusedError(
            f"{folder} contains too many folders to search", fix="name a folder with runs"
        )
    found, problems = find_old_runs(folder)
    if not found:
        why = "; ".join(problems) or f"known are {_KNOWN}"
        raise ImportRefusedError(f"no runs were found in {folder}", why)
    target = torchdeck_home(home)
    before = imported_before(target)
    folders = {run.folder for run in found}
    for old in found:
        own = old.name(folder)
        shown = name + own[len(folder.name) :] if name and own.startswith(folder.name) else own
        try:
            content = old.content()
            earlier = before.get(_key(old), [])
            same = next((each.run_id for each in earlier if each.content == content), None)
            if same is not None:
                yield Imported(shown, old.program, old.folder, None, f"it is run {same} already", same)
                continue
            layouts = (RunLayout(Home(target).runs / each.run_id) for each in reversed(earlier))
            grown = next((layout for layout in layouts if _has_grown(old, layout)), None)
            if grown is None:
                yield import_run(old, shown, content, target, folders)
            else:
                yield update_run(old, content, grown, folders)
        except OSError as error:
            why = f"{error.filename or old.folder}: {error.strerror or error}"
            yield Imported(shown, old.program, old.folder, None, why)
    for problem in problems:
        yield Imported(folder.name, "SQLite", folder, None, problem)


# The run directory of a training that another tool recorded.

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
    updated: bool = False
    """Whether it was imported before, and has more now."""


class _Earlier(NamedTuple):
    """A run that was imported before."""

    run_id: str
    content: str
    """Hash of its files at that time."""


@dataclass(frozen=True)
class _Recorded:
    """Times and progress of a run, collected while its metrics were written."""

    began: float
    ended: float
    state: ScriptState


def _key(old: OldRun) -> tuple[str, str, str]:
    """Return by what a run is known again, whatever was added to it."""
    return str(old.folder), old.program, "" if old.stored is None else old.stored.id


def _has_grown(old: OldRun, layout: RunLayout) -> bool:
    """Return whether the files still have the rows of an imported run, not those of another training."""
    return repeats_written(layout.attempt(1).rank(0).metrics, old.readings())


def imported_before(home: Path) -> dict[tuple[str, str, str], list[_Earlier]]:
    """Return the runs that were imported, oldest first, by their keys: a folder may have had several."""
    found: dict[tuple[str, str, str], list[_Earlier]] = {}
    registry = RunRegistry(home)
    for run_id in registry.ids():
        try:
            events = list(JournalReader(RunLayout(registry.folder / run_id).journal).read_new())
        except Exception:  # noqa: BLE001, S112 - `runs list` says what is wrong with it
            continue
        seals = [event.fields.get("imported") for event in events if event.name == "created"]
        seal = seals[-1] if seals else None
        if isinstance(seal, dict):
            key = (str(seal.get("folder")), str(seal.get("program")), str(seal.get("stored", "")))
            found.setdefault(key, []).append(_Earlier(run_id, str(seal.get("content"))))
    return found


def update_run(old: OldRun, content: str, layout: RunLayout, others: Collection[Path]) -> Imported:
    """Append to an imported run what its files have now.

    Args:
        old: the run.
        content: of its files.
        layout: of the imported run.
        others: folders of other runs.

    Raises:
        OSError: the disk is full.
    """
    view = read_run(layout)
    began = EARLIEST if view.started is None else view.started
    recorded = _write_metrics(old, layout, began)
    known = {each.saved.path for each in script_checkpoints(layout)}
    checkpoints = _checkpoints(old, others)
    new = [each for each in checkpoints if each.saved.path not in known]
    _write_journals(old, view.name, content, layout, recorded, new, finished=view.finishes)
    return Imported(
        view.name,
        old.program,
        old.folder,
        layout,
        steps=recorded.state.step,
        checkpoints=len(checkpoints),
        updated=True,
    )


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
        return Imported(name, old.program, old.folder, None, "it has no metrics")
    layout = create_run_directory(Home(home).runs, name, began)
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
    rank.metrics.mkdir(parents=True, mode=0o700, exist_ok=True)
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
    if old.stored is not None:
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
    finished: int = 0,
) -> None:
    """Write the events of the run; after `finished` earlier imports of it, those of another session."""
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
            imported={
                "folder": str(old.folder),
                "content": content,
                "program": old.program,
                **({} if old.stored is None else {"stored": old.stored.id}),
            },
        )
        if finished:
            journal.append("resumed", t=began, finished=finished, origin="import")
    node = layout.node(LOCALHOST)
    node.root.mkdir(parents=True, mode=0o700, exist_ok=True)
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
        return FinalState.SUCCEEDED, f"{source}, which does not record how it ended"
    if state.step < state.total:
        return FinalState.CANCELLED, f"{source}; it ended at step {state.step} of {state.total}"
    return FinalState.SUCCEEDED, source
