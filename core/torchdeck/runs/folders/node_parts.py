"""What other nodes have of runs: which nodes those are, and of deleted runs whether it still must go there.

A deletion that is cut short, or that does not reach a node, is noted in Torchdeck's home as an empty file
`deleted/NODE/RUN`, for whoever comes next to carry it on.
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
    """Names of the run's nodes that are not this machine; none where its plan cannot be read."""
    try:
        plan = LaunchPlan.from_json(read_json(layout.plan))
    except PlanFormatError:
        return ()
    return tuple(node.name for node in plan.all_nodes if node.name != LOCALHOST)


def note_left(home: Path, run_id: str, nodes: Iterable[str]) -> None:
    """Note that what `nodes` have of a run must go. Raises OSError."""
    for node in nodes:
        path = _folder(home) / node / run_id
        try:
            _touch(path)
        except FileNotFoundError:  # somebody removed the folder, which was empty, in between
            _touch(path)


def forget_left(home: Path, run_id: str, node: str) -> None:
    """It is gone there. What cannot be written is asked for once more, which does no harm."""
    path = _folder(home) / node / run_id
    with contextlib.suppress(OSError):
        path.unlink()
        path.parent.rmdir()  # which only an empty one can be


def left_on_nodes(home: Path) -> dict[str, tuple[str, ...]]:
    """Node → the runs of which what it has must go; not those that have come back here meanwhile."""
    found = {}
    for folder in _entries(_folder(home)):
        names = (path.name for path in _entries(folder))
        runs = [name for name in names if RUN_ID.fullmatch(name) and not Home(home).run(name).root.exists()]
        if runs:
            found[folder.name] = tuple(runs)
    return found


def _entries(folder: Path) -> list[Path]:
    """What is in it; nothing where it is gone, is no folder, or cannot be read: others still count."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _touch(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)


def _folder(home: Path) -> Path:
    return Home(home).deleted
