"""Removing what this node has of runs that were deleted elsewhere: folders, and code no other run uses."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.agent.probe.runs import is_supervised, running
from torchdeck.rundir.layout import RunLayout

RUN_ID = re.compile(r"\d{8}T\d{6}Z-[a-z0-9-]+-[0-9a-f]{6}")
"""As `runs.directory` makes them; nothing else is ever removed."""


def remove_runs(home: Path, question: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the folders of the runs `run_ids` below `home`, none of which a process lives.

    Returns:
        `removed`: run ids; `absent`: those that this node has nothing of; `kept`: run id → why it stays.
    """
    removed: list[str] = []
    absent: list[str] = []
    kept: dict[str, str] = {}
    for run_id in map(str, question["run_ids"]):
        folder = home / "runs" / run_id
        if RUN_ID.fullmatch(run_id) is None:
            kept[run_id] = f"{run_id!r} is no run's id"
        elif folder.is_symlink() or not folder.is_dir():
            absent.append(run_id)
        elif why := _lives(run_id, folder):
            kept[run_id] = why
        else:
            try:
                _remove(home, folder)
                removed.append(run_id)
            except OSError as error:
                kept[run_id] = f"{error.filename or folder}: {error.strerror or error}"
    return {"removed": removed, "absent": absent, "kept": kept}


def _lives(run_id: str, folder: Path) -> str:
    """Which processes of the run live here; empty where none does."""
    pids = [pid for run in running() if run["run_id"] == run_id for pid in run["processes"]]
    if pids:
        return f"processes of the run live there: pid {', '.join(map(str, sorted(pids)))}"
    return "the run's agent lives there" if is_supervised(folder) else ""


def _remove(home: Path, folder: Path) -> None:
    """As `runs.deletion` does; a removal that is cut short leaves no half of a run. Raises OSError."""
    from torchdeck.agent.snapshots.folder import free, read_manifest

    copied = read_manifest(RunLayout(folder))
    aside = folder.with_name(f".deleted-{folder.name}")
    if aside.is_dir():
        shutil.rmtree(aside)  # of a removal that was cut short
    folder.rename(aside)
    shutil.rmtree(aside)
    free(home, copied)
