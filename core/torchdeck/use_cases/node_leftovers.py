"""Folders of runs on nodes that are not on this machine: of deleted runs, or of other machines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.contract.layout import Home
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.node_deletion import REACH_LIMIT, NodeDeletion
from torchdeck.runs.folders.deletion import run_of
from torchdeck.runs.folders.node_parts import left_on_nodes

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector

LIMIT = 60.0
"""Seconds for one node: it adds up the sizes of all files."""
AT_ONCE = 32
STAYS = "something of the run lives there, or it was started there"


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


class _Said(NamedTuple):
    """One node's report on its folder of runs."""

    place: str
    sizes: Mapping[str, int]
    others: frozenset[str]


def find_leftovers(names: Sequence[str], reach: Connector) -> Found:
    """Return data on nodes of runs that are not in this home, each folder once under any number of names.

    Runs that were started on a node itself are excluded.

    Args:
        names: names of nodes.
        reach: connector for the nodes.
    """
    known = _known(reach.home)
    with ThreadPoolExecutor(max(1, min(AT_ONCE, len(names))), thread_name_prefix="folders") as pool:
        asked = dict(zip(names, pool.map(lambda name: _ask(name, known, reach), names), strict=True))
    noted = left_on_nodes(reach.home)
    said = {name: answer for name, answer in asked.items() if isinstance(answer, _Said)}
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


def _ask(name: str, known: Collection[str], reach: Connector) -> _Said | str:
    try:
        with reach.open_probe_session(name, REACH_LIMIT) as talk:
            home = reach.node_inventory().nodes[name].home
            said = talk.ask(ProbeRequest.RUN_FOLDERS, LIMIT, known=sorted(known), home=home)
        sizes = {str(each["run_id"]): int(each["bytes"]) for each in said["folders"]}
        return _Said(str(said["place"]), sizes, frozenset(map(str, said["others"])))
    except Refusal as error:
        return str(error)
    except (LookupError, TypeError, ValueError):
        return f"node {name}: it did not say which folders it has"
