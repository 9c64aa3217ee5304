"""Removing what this node has of runs that were deleted elsewhere: folders, and code no other run uses."""

from __future__ import annotations

import contextlib
import re
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.agent.probe.files import below
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
        aside = _aside(folder)
        if RUN_ID.fullmatch(run_id) is None:
            kept[run_id] = f"{run_id!r} is no run's id"
        elif not (_is_plain(folder) or _is_plain(aside)):
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


def run_folders(home: Path, question: Mapping[str, Any]) -> dict[str, Any]:
    """The folders of runs below `home`, without those of the runs `known` and those that something lives in.

    Returns:
        `folders`: for each `run_id`, `bytes` of its files, and `own`: the run was started on this very node.
    """
    known = set(map(str, question.get("known", ())))
    living = {run["run_id"] for run in running()}
    found = []
    with contextlib.suppress(OSError):
        for folder in sorted((home / "runs").iterdir()):
            run_id = folder.name.removeprefix(".deleted-")
            if run_id in known | living or RUN_ID.fullmatch(run_id) is None or not _is_plain(folder):
                continue
            if not is_supervised(folder):
                size = sum(status.st_size for _, status in below(str(folder)) if stat.S_ISREG(status.st_mode))
                # the journal of the run, not that of one node, is written where it was started
                own = RunLayout(folder).journal.exists()
                found.append({"run_id": run_id, "bytes": size, "own": own})
    return {"folders": found}


def _lives(run_id: str, folder: Path) -> str:
    """Which processes of the run live here; empty where none does."""
    pids = [pid for run in running() if run["run_id"] == run_id for pid in run["processes"]]
    if pids:
        return f"processes of the run live there: pid {', '.join(map(str, sorted(pids)))}"
    return "the run's agent lives there" if is_supervised(folder) else ""


def _remove(home: Path, folder: Path) -> None:
    """As `runs.deletion` does; a removal that is cut short leaves no half of a run. Raises OSError."""
    aside = _aside(folder)
    if _is_plain(aside):  # of a removal that was cut short
        _remove_aside(home, aside)
    if _is_plain(folder):
        folder.rename(aside)
        _remove_aside(home, aside)


def _remove_aside(home: Path, aside: Path) -> None:
    from torchdeck.agent.snapshots.folder import free, read_manifest

    copied = read_manifest(RunLayout(aside))
    shutil.rmtree(aside)
    free(home, copied)


def _aside(folder: Path) -> Path:
    return folder.with_name(f".deleted-{folder.name}")


def _is_plain(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink()
