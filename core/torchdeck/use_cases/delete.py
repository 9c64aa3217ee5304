"""Deleting runs, here and on their nodes, and what other machines or deleted runs have left on nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.agent.snapshots.written_files import written_beside
from torchdeck.contract.file_names import text_of
from torchdeck.contract.layout import Home
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.node_deletion import LIMIT, REACH_LIMIT, NodeDeletion, delete_runs
from torchdeck.nodes.background import on_each
from torchdeck.runs.folders.deletion import run_of
from torchdeck.runs.folders.node_parts import left_on_nodes, remote_nodes
from torchdeck.use_cases.ui import Ui

if TYPE_CHECKING:
    from torchdeck.contract.layout import RunLayout
    from torchdeck.nodes.connector import Connector
    from torchdeck.runs.folders.trash import Trashed


__all__ = [
    "NodeDeletion",
    "delete",
    "delete_from_nodes",
    "delete_runs",
    "empty_trash",
    "finish_deletions",
    "move_to_trash",
    "only_here",
    "remove_deleted",
    "restore",
]
NODES_LIMIT = REACH_LIMIT + LIMIT
"""Seconds for all nodes, without the time that a person takes to answer."""


def delete(
    layout: RunLayout, ui: Ui, *, on_nodes: bool = True, results: bool = False
) -> tuple[NodeDeletion, ...]:
    """Delete a run; what came of it on its nodes.

    Args:
        layout: of the run.
        ui: the front end.
        on_nodes: there, too; else what its nodes have stays.
        results: also if a file that the program wrote next to its code is nowhere else.

    Raises:
        Refusal: something of it lives, or it cannot be removed.
    """
    from torchdeck.runs.folders.deletion import remove

    names = remote_nodes(layout) if on_nodes else ()
    if not results and (found := only_here(layout)):
        raise Refusal(found, fix="copy what you need; --yes deletes them, too")
    try:
        # noted before the nodes are asked: `nodes clean` continues if this is cut short
        remove(move_to_trash(layout, on_nodes=on_nodes))
    except OSError as error:
        raise Refusal(f"{layout.root} cannot be removed", error.strerror) from error
    return _on_nodes(layout.root.name, names, layout.home.root, ui)


def move_to_trash(layout: RunLayout, *, on_nodes: bool = True) -> Path:
    """Delete a run so that `restore` undoes it until `remove_deleted`; return its folder in the trash.

    Args:
        layout: of the run.
        on_nodes: whether `remove_deleted` removes what nodes have of it, too.

    Raises:
        Refusal: something of it lives, or it cannot be moved.
    """
    from torchdeck.runs.folders.deletion import set_aside

    try:
        return set_aside(layout, on_nodes=on_nodes)
    except OSError as error:
        raise Refusal(f"{layout.root} cannot be removed", error.strerror) from error


def restore(trashed: Path) -> RunLayout:
    """Undo `move_to_trash`. Raises Refusal if that fails."""
    from torchdeck.runs.folders.deletion import put_back

    try:
        return put_back(trashed)
    except OSError as error:
        raise Refusal(f"{trashed} cannot be renamed", error.strerror) from error


def only_here(layout: RunLayout) -> str:
    """Return which files of the program would be lost with a run, as a sentence; empty if none would."""
    found = written_beside(layout)
    if not found:
        return ""
    if len(found) == 1:
        return f"1 file that the program wrote next to its code is only in {layout.code}: {text_of(found[0])}"
    return (
        f"{len(found):,} files that the program wrote next to its code are only in {layout.code}, "
        f"such as {text_of(found[0])}"
    )


def delete_from_nodes(run_id: str, names: Sequence[str], home: Path, ui: Ui) -> tuple[NodeDeletion, ...]:
    """Delete what nodes have of a run that is over, or that is not here any more.

    Raises:
        Refusal: it continues, or ranks of it may.
    """
    from torchdeck.runs.folders.deletion import living_alone
    from torchdeck.runs.follower import read_run
    from torchdeck.runs.links import read_links

    layout = Home(home).run(run_id)
    if layout.journal.is_file():
        view = read_run(layout)
        if not view.is_over:
            raise Refusal(f"run {run_id} is {view.state}", fix="stop it first")
        if nodes := living_alone(view, read_links(layout)):
            raise Refusal(f"ranks of run {run_id} continue on {', '.join(nodes)}", fix="stop it first")
    return _on_nodes(run_id, names, home, ui)


def remove_deleted(folder: Path, run_id: str, ui: Ui) -> tuple[NodeDeletion, ...]:
    """Permanently remove a run in the trash, and its files on its nodes. Raises OSError."""
    from torchdeck.contract.layout import RunLayout
    from torchdeck.runs.folders.deletion import remove

    layout = RunLayout(folder)
    names, home = remote_nodes(layout), layout.home.root
    remove(folder)
    return _on_nodes(run_id, names, home, ui)


def empty_trash(
    trashed: Sequence[Trashed], ui: Ui, progress: Callable[[str], object] = lambda _: None
) -> tuple[NodeDeletion, ...]:
    """Permanently remove runs in the trash, and their files on nodes; what came of it on these.

    Args:
        trashed: the runs.
        ui: the front end.
        progress: called with a sentence for each run.

    Raises:
        Refusal: one cannot be removed here; those before it are.
    """
    told: list[NodeDeletion] = []
    for each in trashed:
        progress(f"removing {each.name}")
        try:
            told += remove_deleted(each.folder, each.run_id, ui)
        except OSError as error:
            raise Refusal(f"{each.folder} cannot be removed", error.strerror) from error
    return tuple(told)


def finish_deletions(home: Path, ui: Ui) -> dict[str, tuple[str, ...]]:
    """Remove what has been in the trash too long, and continue deletions on nodes that were cut short.

    Returns:
        run id → nodes that may still have some.
    """
    from torchdeck.launching.node_deletion import delete_noted
    from torchdeck.runs.folders.deletion import remove_forgotten

    removed = remove_forgotten(home)
    delete_noted(ui.connector(home))
    return {run_of(folder.name): nodes for folder, nodes in removed.items() if nodes}


def _on_nodes(run_id: str, names: Sequence[str], home: Path, ui: Ui) -> tuple[NodeDeletion, ...]:
    """Nothing is imported for a run of this machine alone."""
    if not names:
        return ()
    from torchdeck.launching.node_deletion import delete_on_nodes

    return delete_on_nodes(run_id, names, ui.connector(home))


# Folders of runs on nodes that are not on this machine: of deleted runs, or of other machines.

LEFTOVERS_LIMIT = 60.0
"""Seconds for one node: it adds up the sizes of all files."""
STAYS = "a process of the run is alive there, or the run was started there"


@dataclass(frozen=True)
class Leftover:
    """A run's folder on a node without live processes."""

    node: str
    """Name under which the deletion was noted, if it was; otherwise the first name of its host."""
    run_id: str
    size: int
    """Bytes of its files."""
    was_deleted: bool
    """It was deleted here; whether others are still wanted is unknown."""


class Found(NamedTuple):
    """Data on nodes of runs that are not in this home."""

    folders: Sequence[Leftover]
    problems: Sequence[str]
    """Reasons why a node could not be probed, or a deleted run must stay there."""
    gone: Sequence[tuple[str, str]]
    """(node, run) noted for deletion that no longer exist, or that another name of the host reports."""


class _Folders(NamedTuple):
    """One node's report on its folder of runs."""

    place: str
    sizes: Mapping[str, int]
    others: frozenset[str]


def find_leftovers(names: Sequence[str], connector: Connector) -> Found:
    """Return data on nodes of runs that are not in this home, each folder once under any number of names.

    Runs that were started on a node itself are excluded.

    Args:
        names: names of nodes.
        connector: connector for the nodes.
    """
    known = _known(connector.home)
    asked = dict(
        zip(names, on_each(names, lambda name: _ask(name, known, connector), "folders"), strict=True)
    )
    noted = left_on_nodes(connector.home)
    said = {name: answer for name, answer in asked.items() if isinstance(answer, _Folders)}
    problems = [answer for answer in asked.values() if isinstance(answer, str)]
    folders: dict[tuple[str, str], Leftover] = {}
    for name, (place, sizes, _) in said.items():
        for run_id, size in sizes.items():
            each = Leftover(name, run_id, size, was_deleted=run_id in noted.get(name, ()))
            if each.was_deleted or (place, run_id) not in folders:  # a note under any name of a host counts
                folders[place, run_id] = each
    shown = {(each.node, each.run_id) for each in folders.values()}
    gone: list[tuple[str, str]] = []
    for name, run_id in [(node, run) for node in said for run in noted.get(node, ())]:
        if run_id in said[name].others:
            problems.append(str(NodeDeletion(name, run_id, removed=False, why=STAYS)))
        elif run_id not in known and (name, run_id) not in shown:
            gone.append((name, run_id))
    return Found(list(folders.values()), problems, gone)


def _known(home: Path) -> set[str]:
    """Return the runs that are here; trashed ones can be restored."""
    folder = Home(home).runs
    return {run_of(path.name) for path in folder.iterdir()} if folder.is_dir() else set()


def _ask(name: str, known: Collection[str], connector: Connector) -> _Folders | str:
    try:
        with connector.open_probe_session(name, REACH_LIMIT) as probe_session:
            home = connector.node_inventory().nodes[name].home
            said = probe_session.ask(
                ProbeRequest.RUN_FOLDERS, LEFTOVERS_LIMIT, known=sorted(known), home=home
            )
        sizes = {str(each["run_id"]): int(each["bytes"]) for each in said["folders"]}
        return _Folders(str(said["place"]), sizes, frozenset(map(str, said["others"])))
    except Refusal as error:
        return str(error)
    except (LookupError, TypeError, ValueError):
        return f"node {name}: it did not report its folders"
