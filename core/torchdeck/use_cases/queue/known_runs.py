"""States of the runs that matter to the queue, read again each time they are asked for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.journal import JournalReader
from torchdeck.contract.layout import Home
from torchdeck.contract.refusal import Refusal
from torchdeck.queue.decision import RunNow
from torchdeck.runs.folders.run_directory import NoRunDirectoryError, open_run_directory
from torchdeck.runs.follower import JournalFingerprints, RunFollower
from torchdeck.runs.registry import RunRegistry
from torchdeck.runs.view import RunView

UNREADABLE = "UNREADABLE"


class _Over(NamedTuple):
    """A run that is over."""

    state: RunNow
    journals: JournalFingerprints
    """Taken before they were read."""


class KnownRuns:
    """Runs of one home, each followed from the first time it is asked for until it is over.

    A run that is over is read again when its journals change: it was resumed.
    """

    def __init__(self, home: Path) -> None:
        self._folder = Home(home).runs
        self._followers: dict[str, RunFollower] = {}
        self._over: dict[str, _Over] = {}

    def look(self, ids: Iterable[str]) -> dict[str, RunNow | None]:
        """Return the state of each run; None if there is none."""
        wanted = set(ids)
        for known in (self._followers, self._over):
            for run_id in [*known]:
                if run_id not in wanted:
                    del known[run_id]
        return {run_id: self._look(run_id) for run_id in sorted(wanted)}

    def _look(self, run_id: str) -> RunNow | None:
        over = self._over.pop(run_id, None)
        if over is not None and over.journals.are_current:
            self._over[run_id] = over
            return over.state
        try:
            if run_id not in self._followers:
                self._followers[run_id] = RunFollower(open_run_directory(self._folder / run_id))
            journals = JournalFingerprints.taken(self._followers[run_id].layout)
            now = state_of(self._followers[run_id].refresh())
        except NoRunDirectoryError:
            return None
        except (Refusal, OSError) as error:
            self._followers.pop(run_id, None)
            if not (self._folder / run_id).exists():
                return None
            return RunNow(UNREADABLE, is_over=False, why=str(error))
        if now.is_over:
            self._over[run_id] = _Over(now, journals)
            del self._followers[run_id]
        return now


def state_of(view: RunView) -> RunNow:
    """Return the state of a run as the queue needs it."""
    # before its end the reason changes all the time, and nothing depends on it
    why = view.why if view.is_over else ""
    return RunNow(view.state.value, view.is_over, view.started, view.ended, why, view.refused)


def run_of_start(home: Path, token: str, since: float) -> str | None:
    """Return the run that a start of an entry created; None if it created none.

    Args:
        home: TORCHDECK_HOME.
        token: `Entry.token` of the start.
        since: time of the start, seconds since the epoch.
    """
    for run_id in reversed(RunRegistry(home).ids_since(since)):
        journal = JournalReader(Home(home).run(run_id).journal)
        if any(
            event.name == "created" and event.fields.get("queued") == token for event in journal.read_new()
        ):
            return run_id
    return None
