"""Deleting a run's directory, once nothing lives in it; at once, or so that it can be undone for a while."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from torchdeck.agent.snapshots.folder import free, read_manifest
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RUN_ID, TRASH_PREFIX, Home, RunLayout
from torchdeck.contract.lock_file import is_held
from torchdeck.contract.processes import processes_of_run
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.folders.node_parts import note_left, remote_nodes
from torchdeck.runs.follower import read_run
from torchdeck.runs.links import Links, read_links
from torchdeck.runs.view import RunView

_ASIDE = re.compile(rf"{re.escape(TRASH_PREFIX)}(?P<everywhere>everywhere-)?(?P<run_id>{RUN_ID.pattern})")
"""What its nodes have of a run goes with it only where its folder's name says so, whoever removes that."""
FORGOTTEN = 3600.0
"""Seconds after which a run that was set aside is taken for one that nobody will put back."""


class StillAliveError(Refusal):
    """A run cannot be deleted because something of it lives."""


def set_aside(layout: RunLayout, *, on_nodes: bool = True) -> Path:
    """Give the run's directory a name that is no run's; the new path.

    A deletion cut short then leaves no half of a run behind, and until it is removed it can be put back.

    Args:
        layout: of the run.
        on_nodes: what its nodes have of it is to go, too, once it is removed.

    Raises:
        StillAliveError: the run has not ended, or processes of it are alive here, or where it is to go, too.
        NewerFormatError: it is from a newer Torchdeck.
        OSError: it cannot be renamed.
    """
    try:
        found = read_run(layout)
    except OSError:  # what cannot be read can still be deleted, once nothing of it lives here
        _refuse_alive(layout)
        return _renamed(layout, on_nodes=on_nodes)
    if not found.is_over:
        raise StillAliveError(
            f"run {found.id} is {found.state}", fix=f"stop it first with `torchdeck runs stop {found.id}`"
        )
    alive = processes_of_run(found.id)
    if found.processes_alive or alive:
        pids = ", ".join(str(process.pid) for process in alive)
        raise StillAliveError(
            f"run {found.id} is {found.state}, but processes of it are alive: {pids or 'its agent'}"
        )
    if on_nodes and (nodes := living_alone(found, read_links(layout))):
        raise StillAliveError(
            f"ranks of run {found.id} go on without their leader on {', '.join(nodes)}, as far as is known "
            "here",
            fix=f"stop it first with `torchdeck runs stop {found.id}`; where that is never reached again, "
            f"`torchdeck runs delete --here {found.id}` deletes what is here alone",
        )
    return _renamed(layout, on_nodes=on_nodes)


def _refuse_alive(layout: RunLayout) -> None:
    run_id = layout.root.name
    if processes_of_run(run_id) or is_held(layout.node(LOCALHOST).lock):
        raise StillAliveError(
            f"run {run_id} cannot be read, and processes of it are alive",
            fix=f"stop it first with `torchdeck runs stop {run_id}`",
        )


def _renamed(layout: RunLayout, *, on_nodes: bool) -> Path:
    return layout.root.rename(layout.trash(on_nodes=on_nodes))


def living_alone(run: RunView, links: Links | None) -> tuple[str, ...]:
    """Other nodes on which ranks may go on though the run is over: they have not said that none lives."""

    def said_dead(node: str) -> bool:
        state = links.nodes.get(node) if links is not None else None
        if state is None or state.agent_alive is None:
            return False
        return not (state.agent_alive or state.holder_alive or state.torchrun_alive)

    return tuple(node for node in run.nodes_alone if node != LOCALHOST and not said_dead(node))


def run_of(name: str) -> str:
    """The run of a folder of this name: one that was set aside has another than its id."""
    found = _ASIDE.fullmatch(name)
    return found["run_id"] if found else name


def remove(aside: Path) -> tuple[str, ...]:
    """Remove for good what was set aside, and what of code no other run uses.

    What its nodes have of it is noted to go, for who may be cut short in that; where it was set aside so.

    Args:
        aside: the new path.

    Returns:
        nodes that have something of it and could not be noted, as of a disk on which nothing can be written.

    Raises:
        OSError: it cannot be removed.
    """
    layout = RunLayout(aside)
    home = layout.home.root
    found = _ASIDE.fullmatch(aside.name)
    nodes = remote_nodes(layout) if found and found["everywhere"] else ()
    unnoted = _note(home, run_of(aside.name), nodes)
    copied = read_manifest(layout)
    shutil.rmtree(aside)
    free(home, copied)
    return _note(home, run_of(aside.name), unnoted)  # a full disk has room now


def put_back(aside: Path) -> RunLayout:
    """Undo `set_aside`; raises OSError where that cannot be."""
    return RunLayout(aside.rename(aside.with_name(run_of(aside.name))))


def remove_forgotten(home: Path, now: float | None = None) -> dict[Path, tuple[str, ...]]:
    """Remove the runs that were set aside by somebody who did not live to remove them.

    Args:
        home: TORCHDECK_HOME.
        now: seconds since the epoch.

    Returns:
        what was removed → as `remove`. What cannot be removed is tried the next time.
    """
    now = time.time() if now is None else now
    removed = {}
    for path in sorted(Home(home).runs.glob(f"{TRASH_PREFIX}*")):
        with suppress(OSError):
            if _ASIDE.fullmatch(path.name) and now - path.stat().st_ctime > FORGOTTEN:
                removed[path] = remove(path)
    return removed


def _note(home: Path, run_id: str, nodes: Iterable[str]) -> tuple[str, ...]:
    """Note that what `nodes` have must go; those that could not be noted."""
    unnoted = []
    for node in nodes:
        try:
            note_left(home, run_id, [node])
        except OSError:
            unnoted.append(node)
    return tuple(unnoted)
