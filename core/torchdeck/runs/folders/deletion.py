"""Deletion of a run's directory, once it has no live processes; at once, or so that it can be undone for a
while.
"""

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
from torchdeck.runs.folders.notes import Note, read_notes
from torchdeck.runs.follower import read_run
from torchdeck.runs.links import Links, read_links
from torchdeck.runs.view import RunView

_ASIDE = re.compile(rf"{re.escape(TRASH_PREFIX)}(?P<everywhere>everywhere-)?(?P<run_id>{RUN_ID.pattern})")
"""Name of a trashed run's folder. Its data on nodes is removed with it only if the name says so, whichever
process removes the folder.
"""
FORGOTTEN = 30 * 86400.0
"""Seconds after which a trashed run counts as one that will not be restored."""


class StillAliveError(Refusal):
    """The run cannot be deleted because some of its processes are alive."""


class PinnedError(Refusal):
    """The run is not deleted because the user has pinned it."""


def set_aside(layout: RunLayout, *, on_nodes: bool = True) -> Path:
    """Move the run to the trash by renaming its directory to a name that is no run's. Return the new path.

    An interrupted deletion then leaves no half of a run behind, and the run can be restored until it is
    removed.

    Args:
        layout: layout of the run.
        on_nodes: the run's data on its nodes is removed too, once the run is removed.

    Raises:
        PinnedError: the user has pinned it.
        NewerNotesError, DamagedNotesError: whether it is pinned is not known.
        StillAliveError: the run has not ended, or processes of it are alive here, or on nodes from which it
            is to be removed too.
        NewerFormatError: it is from a newer Torchdeck.
        OSError: it cannot be renamed, or the notes cannot be read.
    """
    if read_notes(layout.home.root).get(layout.root.name, Note()).pinned:
        raise PinnedError(
            f"run {layout.root.name} is pinned",
            fix=f"`torchdeck runs edit {layout.root.name} --unpin` first, or unpin it in the window",
        )
    try:
        found = read_run(layout)
    except OSError:  # an unreadable run without live processes can be deleted
        _refuse_alive(layout)
        return _renamed(layout, on_nodes=on_nodes)
    if found.job and not found.agent_alive:  # only links here; a requeued job may never start again
        return _renamed(layout, on_nodes=on_nodes)
    if not found.is_over:
        raise StillAliveError(
            f"run {found.id} is {found.state}", fix=f"stop it first with `torchdeck runs stop {found.id}`"
        )
    alive = processes_of_run(found.id)
    # an agent that cannot be ended, on another node, does not keep back what is here
    away = not on_nodes and found.unfenced and not layout.node(LOCALHOST).root.exists()
    if alive or (found.processes_alive and not away):
        pids = ", ".join(str(process.pid) for process in alive)
        raise StillAliveError(
            f"run {found.id} is {found.state}, but processes of it are alive: {pids or 'its agent'}"
        )
    if on_nodes and (nodes := living_alone(found, read_links(layout))):
        raise StillAliveError(
            f"ranks of run {found.id} ran without leader on {', '.join(nodes)}, as far as known here",
            fix=f"stop it first with `torchdeck runs stop {found.id}`; where that is never reached again, "
            f"`torchdeck runs delete --here {found.id}` deletes what is here alone",
        )
    if on_nodes and found.unfenced:
        silent = ", ".join(found.unfenced)
        raise StillAliveError(
            f"run {found.id} was given up without an answer from {silent}, where it may still run",
            fix="delete it once its controller has ended it there; where that is never reached again, "
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
    """Return other nodes on which ranks may still run though the run is over: they have not confirmed that
    none is alive.
    """

    def said_dead(node: str) -> bool:
        state = links.nodes.get(node) if links is not None else None
        if state is None or state.agent_alive is None:
            return False
        return not (state.agent_alive or state.holder_alive or state.torchrun_alive)

    return tuple(node for node in run.nodes_alone if node != LOCALHOST and not said_dead(node))


def run_of(name: str) -> str:
    """Return the run of a folder of this name: the name of a trashed run differs from its id."""
    found = _ASIDE.fullmatch(name)
    return found["run_id"] if found else name


def is_aside(folder: Path) -> bool:
    """Return whether a folder of the home's runs is that of a trashed one."""
    return _ASIDE.fullmatch(folder.name) is not None and folder.is_dir()


def remove(aside: Path) -> tuple[str, ...]:
    """Permanently remove a trashed run, and the code that no other run uses.

    If it was trashed that way, the removal of its data on nodes is noted first, in case this process is
    interrupted.

    Args:
        aside: path in the trash.

    Returns:
        nodes that have data of it and could not be noted, for example because the disk is not writable.

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
    return _note(home, run_of(aside.name), unnoted)  # a full disk has space now


def put_back(aside: Path) -> RunLayout:
    """Undo `set_aside`; raises OSError if that fails."""
    return RunLayout(aside.rename(aside.with_name(run_of(aside.name))))


def remove_forgotten(home: Path, now: float | None = None) -> dict[Path, tuple[str, ...]]:
    """Remove runs that have been in the trash for `FORGOTTEN`.

    Args:
        home: TORCHDECK_HOME.
        now: seconds since the epoch.

    Returns:
        removed paths → as `remove`. What cannot be removed is retried the next time.
    """
    now = time.time() if now is None else now
    removed = {}
    for path in sorted(Home(home).runs.glob(f"{TRASH_PREFIX}*")):
        with suppress(OSError):
            if _ASIDE.fullmatch(path.name) and now - path.stat().st_ctime > FORGOTTEN:
                removed[path] = remove(path)
    return removed


def _note(home: Path, run_id: str, nodes: Iterable[str]) -> tuple[str, ...]:
    """Note that the data on `nodes` must be removed. Return the nodes that could not be noted."""
    unnoted = []
    for node in nodes:
        try:
            note_left(home, run_id, [node])
        except OSError:
            unnoted.append(node)
    return tuple(unnoted)
