"""Deleting a run's directory, once nothing lives in it."""

from __future__ import annotations

import shutil

from torchdeck.rundir.layout import RunLayout
from torchdeck.rundir.processes import processes_of_run
from torchdeck.runs.follower import read_run


class StillAliveError(Exception):
    """A run cannot be deleted because something of it lives."""


def delete_run(layout: RunLayout) -> None:
    """Remove the run's directory: journals, logs, metrics, and the checkpoints that lie in it.

    The directory first gets a name that is no run's: a deletion cut short leaves no half of a run behind.

    Raises:
        StillAliveError: the run has not ended, or processes of it are alive.
        NewerFormatError: it is from a newer Torchdeck.
        OSError: it cannot be removed.
    """
    found = read_run(layout)
    if not found.is_over:
        raise StillAliveError(
            f"run {found.id} is {found.state}: stop it first with `torchdeck runs stop {found.id}`"
        )
    alive = processes_of_run(found.id)
    if found.processes_alive or alive:
        pids = ", ".join(str(process.pid) for process in alive)
        raise StillAliveError(
            f"run {found.id} is {found.state}, but processes of it are alive: {pids or 'its agent'}"
        )
    doomed = layout.root.with_name(f".deleted-{layout.root.name}")
    layout.root.rename(doomed)
    shutil.rmtree(doomed)
