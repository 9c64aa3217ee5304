"""Folders of runs on nodes of which this machine has none: of deleted runs, or of other machines."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.launch.node_deletion import REACH_LIMIT
from torchdeck.nodes.probe.conversation import ProbeError
from torchdeck.nodes.ssh.errors import SshError
from torchdeck.runs.deletion import run_of
from torchdeck.runs.home import runs_folder
from torchdeck.runs.node_parts import left_on_nodes

if TYPE_CHECKING:
    from torchdeck.launch.reach import Reach

LIMIT = 60.0
"""Seconds for one node: it adds up the sizes of all files."""
AT_ONCE = 32


@dataclass(frozen=True)
class Leftover:
    """A run's folder on a node, in which nothing lives."""

    node: str
    run_id: str
    size: int
    """Bytes of its files."""
    was_deleted: bool
    """It was deleted here; of others nobody can say whether somebody wants them."""


def find_leftovers(hosts: Mapping[str, str], reach: Reach) -> tuple[list[Leftover], list[str]]:
    """What lies on nodes of runs that are not in this home, and why some could not be asked.

    Runs that were started on a node itself are left out, as are folders of a host that was seen by another
    name already.

    Args:
        hosts: node → what tells its host from others.
        reach: how they are connected to.
    """
    known = sorted(_known(reach.home))
    with ThreadPoolExecutor(max(1, min(AT_ONCE, len(hosts))), thread_name_prefix="folders") as pool:
        asked = list(pool.map(lambda name: _ask(name, known, reach), hosts))
    seen: set[tuple[str, str]] = set()
    found: list[Leftover] = []
    for host, said in zip(hosts.values(), asked, strict=True):
        for each in () if isinstance(said, str) else said:
            if (host, each.run_id) not in seen:
                found.append(each)
            seen.add((host, each.run_id))
    return found, [said for said in asked if isinstance(said, str)]


def _known(home: Path) -> set[str]:
    """Runs that are here; those that are set aside can be put back."""
    folder = runs_folder(home)
    return {run_of(path.name) for path in folder.iterdir()} if folder.is_dir() else set()


def _ask(name: str, known: list[str], reach: Reach) -> list[Leftover] | str:
    deleted = left_on_nodes(reach.home).get(name, ())
    try:
        with reach.talk(name, REACH_LIMIT) as talk:
            said = talk.ask("run_folders", LIMIT, known=known, home=reach.book().nodes[name].home)
        return [
            Leftover(name, str(each["run_id"]), int(each["bytes"]), was_deleted=each["run_id"] in deleted)
            for each in said["folders"]
            if not each["own"]
        ]
    except (SshError, ProbeError) as error:
        return str(error)
    except (LookupError, TypeError, ValueError):
        return f"node {name}: it did not say which folders it has"
