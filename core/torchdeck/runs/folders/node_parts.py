"""Run data on other nodes: which nodes have it, and for deleted runs whether it still has to be removed.

A deletion that is interrupted, or does not reach a node, is noted in Torchdeck's home as an empty file
`deleted/NODE/RUN`. Any later process can finish it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from torchdeck.contract.atomic import read_json
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RUN_ID, Home, RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan, PlanFormatError


def remote_nodes(layout: RunLayout) -> tuple[str, ...]:
    """Return the names of the run's nodes that are not this machine; empty if its plan cannot be read."""
    if layout.plan.is_symlink():  # a job's run, whose nodes are Slurm's
        return ()
    try:
        plan = LaunchPlan.from_json(read_json(layout.plan))
    except PlanFormatError:
        return ()
    return tuple(node.name for node in plan.all_nodes if node.name != LOCALHOST)


def note_left(home: Path, run_id: str, nodes: Iterable[str]) -> None:
    """Note that the data of a run on `nodes` must be removed. Raises OSError."""
    for node in nodes:
        path = _folder(home) / node / run_id
        try:
            _touch(path)
        except FileNotFoundError:  # another process removed the empty folder meanwhile
            _touch(path)


def forget_left(home: Path, run_id: str, node: str) -> None:
    """Remove the note: the data is gone on the node. If this fails, the removal is requested once more, which
    is harmless.
    """
    path = _folder(home) / node / run_id
    with contextlib.suppress(OSError):
        path.unlink()
        path.parent.rmdir()  # succeeds only if it is empty


def left_on_nodes(home: Path) -> dict[str, tuple[str, ...]]:
    """Return node → runs whose data on it must be removed, except those that have reappeared here
    meanwhile.
    """
    found = {}
    for folder in _entries(_folder(home)):
        names = (path.name for path in _entries(folder))
        runs = [name for name in names if RUN_ID.fullmatch(name) and not Home(home).run(name).root.exists()]
        if runs:
            found[folder.name] = tuple(runs)
    return found


def _entries(folder: Path) -> list[Path]:
    """Return its entries; empty if it is gone, is not a folder, or cannot be read: others still count."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _touch(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)


def _folder(home: Path) -> Path:
    return Home(home).deleted
