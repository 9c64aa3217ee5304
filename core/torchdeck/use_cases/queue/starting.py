"""Starts an entry of the queue exactly once, whichever server is killed meanwhile.

First the queue's file says that a start begins, with a token; then the run is created, which records the
token; then the file names the run. A server that finds a start without a run looks for the token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.contract.refusal import refusal_of
from torchdeck.queue.asked import bindings
from torchdeck.queue.entry import Entry, Stage
from torchdeck.queue.queue_file import change_queue
from torchdeck.queue.scheduling.ask import Places
from torchdeck.queue.state import Queue, QueueError
from torchdeck.use_cases.queue.adding import loaded_file
from torchdeck.use_cases.queue.known_runs import run_of_start
from torchdeck.use_cases.start import StartRequest, start
from torchdeck.use_cases.ui import Ui

if TYPE_CHECKING:
    from torchdeck.use_cases.start import Started


class ChangedError(QueueError):
    """The entry was changed or removed since it was chosen; it is chosen again if it still waits."""


def start_entry(entry: Entry, places: Places, home: Path, ui: Ui, now: float) -> Started:
    """Start an entry on these places; the queue names its run afterwards.

    Args:
        entry: as it was when it was chosen.
        places: where it runs.
        home: TORCHDECK_HOME.
        ui: the front end.
        now: the current time, seconds since the epoch.

    Raises:
        ChangedError: it is no longer the same.
        Refusal: it cannot be started; it waits again, and what refused it is its note.
    """
    claimed = _claim(entry, places, home, now)
    try:
        request = start_request(claimed, home)
        started = start(request, ui)
    except Exception as error:  # whatever it is, the entry must not stay in between, and the others go on
        refusal = refusal_of(error)
        _update(claimed, home, lambda each: each.waiting_again(str(refusal)))
        raise refusal from error
    run = started.layout.root.name
    _update(claimed, home, lambda each: replace(each, stage=Stage.RUNNING, run=run, note=""))
    return started


def start_request(entry: Entry, home: Path) -> StartRequest:
    """Return the start of an entry on its places. Raises ConfigError."""
    overrides = tuple(bindings(entry.ask, entry.places))
    loaded = loaded_file(entry.file, overrides)
    source = entry.file.path if entry.file.is_file else ""
    said = (*entry.file.overrides, *overrides)
    return StartRequest(loaded, entry.file.text, source, said, home=home, queued=entry.token)


def recover(queue: Queue, home: Path) -> list[Entry]:
    """Return entries whose start a killed server left in between, after they were put right."""
    found = []
    for entry in queue.entries:
        if entry.stage is not Stage.STARTING:
            continue
        run = run_of_start(home, entry.token, entry.begun or 0.0)
        lost = entry.waiting_again("")
        right = lost if run is None else replace(entry, stage=Stage.RUNNING, run=run)
        change_queue(home, partial(Queue.with_entry, changed=right))
        found.append(right)
    return found


def _claim(entry: Entry, places: Places, home: Path, now: float) -> Entry:
    claimed = replace(
        entry, stage=Stage.STARTING, starts=entry.starts + 1, places=places, begun=now, run="", note=""
    )

    def change(queue: Queue) -> Queue:
        if entry not in queue.entries:
            raise ChangedError(f"{entry.id} was changed")
        return queue.with_entry(claimed)

    change_queue(home, change)
    return claimed


def _update(entry: Entry, home: Path, change: Callable[[Entry], Entry]) -> None:
    """Change an entry that no one else changes now, as it does not wait."""
    change_queue(home, lambda queue: queue.with_entry(change(entry)))
