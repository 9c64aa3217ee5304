"""Delete a run, here and on its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.agent.snapshots.results import written_beside
from torchdeck.contract.file_names import text_of
from torchdeck.contract.layout import Home
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.node_deletion import LIMIT, REACH_LIMIT, NodeDeletion, delete_runs
from torchdeck.runs.folders.node_parts import remote_nodes
from torchdeck.use_cases.ui import Ui

if TYPE_CHECKING:
    from torchdeck.contract.layout import RunLayout

__all__ = ["NodeDeletion", "delete", "delete_from_nodes", "delete_runs", "finish_deletions", "remove_deleted"]
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
        results: also if a file that the program wrote beside its code is nowhere else.

    Raises:
        Refusal: something of it lives, or it cannot be removed.
    """
    from torchdeck.runs.folders.deletion import remove, set_aside

    names = remote_nodes(layout) if on_nodes else ()
    only_here = [] if results else written_beside(layout)
    if only_here:
        raise Refusal(
            f"{len(only_here):,} files that the program wrote beside its code are only in {layout.code}, "
            f"such as {text_of(only_here[0])}",
            fix="copy what you need; --yes deletes them, too",
        )
    try:
        # noted before the nodes are asked: `nodes clean` continues if this is cut short
        remove(set_aside(layout, on_nodes=on_nodes))
    except Refusal:
        raise
    except OSError as error:
        raise Refusal(f"{layout.root} cannot be removed: {error.strerror}") from error
    return _on_nodes(layout.root.name, names, layout.home.root, ui)


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
    """Remove for good a run that was set aside, and what its nodes have of it. Raises OSError."""
    from torchdeck.contract.layout import RunLayout
    from torchdeck.runs.folders.deletion import remove

    layout = RunLayout(folder)
    names, home = remote_nodes(layout), layout.home.root
    remove(folder)
    return _on_nodes(run_id, names, home, ui)


def finish_deletions(home: Path, ui: Ui) -> dict[Path, tuple[str, ...]]:
    """Continue deletions that were cut short, here and on nodes; folder → nodes that may still have some."""
    from torchdeck.launching.node_deletion import delete_noted
    from torchdeck.runs.folders.deletion import remove_forgotten

    removed = remove_forgotten(home)
    delete_noted(ui.connector(home))
    return removed


def _on_nodes(run_id: str, names: Sequence[str], home: Path, ui: Ui) -> tuple[NodeDeletion, ...]:
    """Nothing is imported for a run of this machine alone."""
    if not names:
        return ()
    from torchdeck.launching.node_deletion import delete_on_nodes

    return delete_on_nodes(run_id, names, ui.connector(home))
