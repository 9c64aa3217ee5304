"""Deleting a run's directory, once nothing lives in it; at once, or so that it can be undone for a while."""

from __future__ import annotations

import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

from torchdeck.agent.snapshots.folder import free, read_manifest
from torchdeck.rundir.layout import RunLayout
from torchdeck.rundir.processes import processes_of_run
from torchdeck.runs.directory import RUN_ID
from torchdeck.runs.follower import read_run
from torchdeck.runs.home import runs_folder
from torchdeck.runs.node_parts import note_left, remote_nodes

_ASIDE = re.compile(rf"\.deleted-({RUN_ID.pattern})")
FORGOTTEN = 3600.0
"""Seconds after which a run that was set aside is taken for one that nobody will put back."""


class StillAliveError(Exception):
    """A run cannot be deleted because something of it lives."""


def delete_run(layout: RunLayout) -> None:
    """Remove the run's directory: journals, logs, metrics, and the checkpoints that lie in it.

    Raises:
        StillAliveError: the run has not ended, or processes of it are alive.
        NewerFormatError: it is from a newer Torchdeck.
        OSError: it cannot be removed.
    """
    remove(set_aside(layout))


def set_aside(layout: RunLayout) -> Path:
    """Give the run's directory a name that is no run's; the new path.

    A deletion cut short then leaves no half of a run behind, and until it is removed it can be put back.

    Raises:
        as `delete_run`.
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
    return layout.root.rename(layout.root.with_name(f".deleted-{layout.root.name}"))


def remove(aside: Path, *, on_nodes: bool = True) -> None:
    """Remove for good what was set aside, and what of code no other run uses; raises OSError.

    Args:
        aside: the new path.
        on_nodes: what its nodes have of it is to go, too: it is noted, for who may be cut short in that.
    """
    home, layout = aside.parent.parent, RunLayout(aside)
    if on_nodes:
        note_left(home, aside.name.removeprefix(".deleted-"), remote_nodes(layout))
    copied = read_manifest(layout)
    shutil.rmtree(aside)
    free(home, copied)


def put_back(aside: Path) -> RunLayout:
    """Undo `set_aside`; raises OSError where that cannot be."""
    return RunLayout(aside.rename(aside.with_name(aside.name.removeprefix(".deleted-"))))


def remove_forgotten(home: Path, now: float | None = None) -> list[Path]:
    """Remove the runs that were set aside by somebody who did not live to remove them; which they were.

    Args:
        home: TORCHDECK_HOME.
        now: seconds since the epoch.
    """
    now = time.time() if now is None else now
    removed = []
    for path in sorted(runs_folder(home).glob(".deleted-*")):
        if _ASIDE.fullmatch(path.name) and now - path.stat().st_ctime > FORGOTTEN:
            with suppress(OSError):
                remove(path)
            removed.append(path)
    return removed
