"""Ends and removes what dead and deleted runs have left on nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.contract.layout import Home
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.background import on_each
from torchdeck.nodes.probe.probing import clean_node
from torchdeck.runs.folders.node_parts import forget_left
from torchdeck.runs.follower import read_run
from torchdeck.use_cases.delete import Leftover, NodeDeletion, delete_runs, find_leftovers
from torchdeck.use_cases.nodes.probe import probe

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector
    from torchdeck.nodes.probe.facts import NodeFacts, RunHere
    from torchdeck.use_cases.nodes.chosen import ChosenNodes


class Left(NamedTuple):
    """Processes and folders that can be ended and removed."""

    processes: Mapping[str, Sequence[RunHere]]
    """Orphaned runs by node."""
    folders: Sequence[Leftover]
    """Folders of runs that were deleted here."""
    unknown: Sequence[Leftover]
    """Folders that stay, as their owner is unknown here."""
    gone: Sequence[tuple[str, str]]
    """(node, run) noted for deletion that no longer exist."""
    problems: Sequence[str]


@dataclass(frozen=True)
class Ended:
    """Result of ending the orphans of one node."""

    node: str
    ended: Mapping[str, int]
    """Processes that ended, by run."""
    kept: Sequence[str]
    """Runs that are supervised again, and were left alone."""
    left: int
    """Processes that do not exit."""
    error: str = ""
    """Why the node could not be cleaned."""

    @property
    def why(self) -> str:
        """Return what could not be cleaned, as a sentence; empty if all is clean."""
        if self.left and not self.error:
            return f"node {self.node}: {self.left} processes do not end: inspect them there"
        return self.error


class Cleaned(NamedTuple):
    """Result of a cleanup."""

    ended: Sequence[Ended]
    deleted: Sequence[NodeDeletion]
    """Result for each folder."""


def find_left(chosen: ChosenNodes) -> Left:
    """Return what dead and deleted runs have left on nodes, and which nodes could not be probed."""
    facts: dict[str, NodeFacts] = {}
    problems: list[str] = []
    for probed in probe(chosen):
        if probed.facts is None:
            problems.append(probed.error)
        else:
            facts[probed.node] = probed.facts
    reached = [name for name in chosen.entries if name in facts]
    orphans = orphans_once({name: facts[name] for name in reached})
    home = chosen.connector.home
    controlled = {run.run_id for runs in orphans.values() for run in runs if _is_controlled(run.run_id, home)}
    problems += [
        f"run {run} continues, and its controller here supervises it: it is left alone" for run in controlled
    ]
    ends = {name: [run for run in runs if run.run_id not in controlled] for name, runs in orphans.items()}
    found = find_leftovers(reached, chosen.connector)
    return Left(
        {name: runs for name, runs in ends.items() if runs},
        [each for each in found.folders if each.was_deleted],
        [each for each in found.folders if not each.was_deleted],
        found.gone,
        [*problems, *found.problems],
    )


def clean(left: Left, connector: Connector) -> Cleaned:
    """End and remove this, which was shown to the user, and nothing else."""
    runs = {name: [run.run_id for run in found] for name, found in left.processes.items()}
    ended = end_orphans(runs, connector)
    folders: dict[str, list[str]] = {}
    for each in left.folders:
        folders.setdefault(each.node, []).append(each.run_id)
    deleted = delete_runs(folders, connector)
    for name, run_id in left.gone:
        forget_left(connector.home, run_id, name)
    return Cleaned(ended, deleted)


def end_orphans(runs: Mapping[str, Sequence[str]], connector: Connector) -> list[Ended]:
    """End the processes of runs, by node.

    Runs that are supervised there, or that a controller here is about to restart, are left alone.
    """
    return on_each(runs, lambda name: _end(name, runs[name], connector), "clean")


def orphans_once(facts: Mapping[str, NodeFacts]) -> dict[str, list[RunHere]]:
    """Return the orphans by node; if several names are one host, under the first of them."""
    seen: set[tuple[str, str, str, tuple[int, ...]]] = set()
    found: dict[str, list[RunHere]] = {}
    for name, said in facts.items():
        for run in said.orphans:
            # containers of one host have its boot, names of their own, and may have the same pids
            which = (said.system.boot, said.system.host, run.run_id, run.processes)
            if which not in seen:
                found.setdefault(name, []).append(run)
            seen.add(which)
    return found


def _end(name: str, run_ids: Sequence[str], connector: Connector) -> Ended:
    kept = [run_id for run_id in run_ids if _is_controlled(run_id, connector.home)]
    ids = [run_id for run_id in run_ids if run_id not in kept]
    if not ids:
        return Ended(name, {}, kept, 0)
    try:
        said = clean_node(name, connector.entry(name), connector.connect, ids)
    except Refusal as error:
        return Ended(name, {}, kept, 0, str(error))
    return Ended(name, dict(said["ended"]), [*kept, *said["kept"]], int(said["left"]))


def _is_controlled(run_id: str, home: Path) -> bool:
    """Return whether a controller of this home is about to start an agent for the run again."""
    if Path(run_id).name != run_id:
        return False
    layout = Home(home).run(run_id)
    if not layout.journal.is_file():
        return False
    try:
        view = read_run(layout)
    except (Refusal, OSError):
        return False
    return view.controller_alive and not view.is_over
