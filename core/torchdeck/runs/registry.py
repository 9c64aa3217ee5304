"""All runs of a home: listing them, and finding one by user input."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from torchdeck.contract.journal import NewerFormatError
from torchdeck.contract.layout import RUN_ID, Home, RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.folders.notes import known_notes
from torchdeck.runs.folders.run_directory import RunDirectoryError, open_run_directory
from torchdeck.runs.follower import read_run
from torchdeck.runs.view import RunView

LATEST = "latest"
CLOCK_STEP = 3600.0
"""Seconds by which the clock may have been set back between the decision to start a run and its creation."""


class RunNotFoundError(Refusal):
    """No run, or more than one, matches; the message says how to fix it."""

    is_usage = True


@dataclass(frozen=True)
class UnreadableRun:
    """Run directory that cannot be shown, and why."""

    id: str
    why: str


def why_unreadable(error: Exception) -> str:
    """Return why a run cannot be read; an unexpected error is reported as a bug of this program."""
    if isinstance(error, (RunDirectoryError, NewerFormatError, OSError)):
        return str(error)
    return f"it cannot be read, by a fault in Torchdeck: {type(error).__name__}: {error}"


class RunRegistry:
    """Runs of one home."""

    def __init__(self, home: Path) -> None:
        self.folder = Home(home).runs

    def ids(self) -> list[str]:
        """Return the ids of all runs, oldest first (an id begins with its creation time)."""
        try:
            # only names are needed, and the list of a thousand runs is requested often
            return sorted(filter(RUN_ID.fullmatch, os.listdir(self.folder)))  # noqa: PTH208
        except FileNotFoundError:
            return []

    def ids_since(self, moment: float) -> list[str]:
        """Return the ids of runs created since `moment` (seconds since the epoch), oldest first.

        Older ones by up to `CLOCK_STEP` are among them.
        """
        first = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(moment - CLOCK_STEP))
        return [run_id for run_id in self.ids() if run_id >= first]

    def all(self) -> list[RunView | UnreadableRun]:
        """Return the current view of every run, oldest first."""
        return list(self.newest_first())[::-1]

    def newest_first(
        self, *, first: Collection[str] = (), without: Collection[str] = ()
    ) -> Iterator[RunView | UnreadableRun]:
        """Yield the current view of every run, newest first; each is read when it is asked for.

        Args:
            first: ids of runs that come before the others.
            without: ids of runs that are left out.
        """
        ids = [run_id for run_id in reversed(self.ids()) if run_id not in without]
        for run_id in sorted(ids, key=lambda run_id: run_id not in first):
            try:
                yield read_run(open_run_directory(self.folder / run_id))
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one run, the others are listed
                yield UnreadableRun(run_id, why_unreadable(error))

    def find(self, asked: str, *, active: bool = False) -> RunLayout:
        """Return the one run that `asked` names: an id, a prefix of one, a run's name, or `latest`.

        Args:
            asked: what the user wrote.
            active: of several runs, the only one that is not over is meant.

        Raises:
            RunNotFoundError: none matches, or several do.
            RunDirectoryError: it exists and is not a run directory.
            NewerFormatError: it is from a newer Torchdeck.
        """
        return open_run_directory(self.folder / self._id_of(asked, active=active))

    def _id_of(self, asked: str, *, active: bool) -> str:
        ids = self.ids()
        if asked in ids:
            return asked
        if not ids:
            raise RunNotFoundError(f"there is no run {asked!r}: there are no runs in {self.folder} yet")
        if asked == LATEST:
            return self._newest(ids)
        beginning = [run_id for run_id in ids if asked and run_id.startswith(asked)]
        named = beginning or self._named(asked)
        if active and len(named) > 1:
            named = self._active(named) or named
        if len(named) == 1:
            return named[0]
        if named:
            newest = ", ".join(reversed(named[-4:]))
            raise RunNotFoundError(
                f"{asked!r} fits {len(named)} runs; name one by its id, the newest first: {newest}"
            )
        raise RunNotFoundError(f"there is no run {asked!r} in {self.folder}; `torchdeck runs list` shows all")

    def _newest(self, ids: list[str]) -> str:
        """Return the id created last; ids give the second, and journals decide within the same second."""
        same = [run_id for run_id in ids if run_id.startswith(ids[-1].partition("-")[0])]
        if len(same) == 1:
            return same[0]
        made = {item.id: item.created for item in self.all() if isinstance(item, RunView)}
        return max(same, key=lambda run_id: made.get(run_id) or 0.0)

    def _named(self, name: str) -> list[str]:
        views = [item for item in self.all() if isinstance(item, RunView)]
        given = {run_id: note.name for run_id, note in known_notes(self.folder.parent).items()}
        return [view.id for view in views if name in (view.name, given.get(view.id))]

    def _active(self, ids: list[str]) -> list[str]:
        """Return those of which something may still run."""
        views = [item for item in self.all() if isinstance(item, RunView) and item.id in ids]
        return [view.id for view in views if view.processes_alive or view.needs_controller]
