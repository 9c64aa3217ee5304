"""Looks for checkpoints below folders, within limits."""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from torchdeck.trainers.checkpoints.checkpoint_kinds import TrainerCheckpoint
from torchdeck.trainers.checkpoints.files import file_checkpoint
from torchdeck.trainers.checkpoints.folders import folder_checkpoint

DEPTH = 8
ENTRIES = 50_000
ENTRIES_EACH = 10_000
SECONDS = 5.0
"""Limits of one search."""
_SKIPPED = frozenset(
    {"__pycache__", "node_modules", "site-packages", "wandb", "mlruns", "venv", "conda-meta", "datasets"}
)
"""Folders with no checkpoints of the program itself."""


class Content(NamedTuple):
    """All files of a checkpoint; equal at two looks: nothing was written in between."""

    files: int
    size: int
    """Bytes."""
    changed: int
    """Newest modification time, in nanoseconds."""


def find_checkpoints(folders: Iterable[Path], without: Iterable[Path] = ()) -> list[TrainerCheckpoint]:
    """Return all that have the name of a checkpoint below `folders`, complete or not, oldest first.

    Args:
        folders: looked into, the nearest folders first; those that do not exist are left out.
        without: folders that are not entered.
    """
    found: dict[str, TrainerCheckpoint] = {}
    seen = {os.path.realpath(path) for path in without}
    queue = deque((os.path.realpath(folder), 0) for folder in folders)
    left, until = ENTRIES, time.monotonic() + SECONDS
    while queue and left > 0 and time.monotonic() < until:
        folder, depth = queue.popleft()
        if folder in seen:
            continue
        seen.add(folder)
        try:
            with os.scandir(folder) as listing:
                entries = list(itertools.islice(listing, ENTRIES_EACH))
        except OSError:
            continue
        left -= len(entries)
        whole = folder_checkpoint(Path(folder), [entry.name for entry in entries])
        if whole is not None:
            found[whole.path] = whole
            continue
        for entry in entries:
            if _may_be_entered(entry):
                if depth < DEPTH:
                    queue.append((entry.path, depth + 1))
            elif (file := _file(entry)) is not None:
                found[file.path] = file
    return sorted(found.values(), key=lambda each: each.changed)


def _may_be_entered(entry: os.DirEntry[str]) -> bool:
    try:
        is_folder = entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
    return is_folder and not entry.name.startswith(".") and entry.name not in _SKIPPED


def _file(entry: os.DirEntry[str]) -> TrainerCheckpoint | None:
    try:
        if not entry.is_file(follow_symlinks=False):
            return None
        return file_checkpoint(Path(entry.path), entry.stat())
    except OSError:
        return None  # just being deleted


def look_at(path: Path) -> TrainerCheckpoint | None:
    """Return what lies at `path`; None if that is no checkpoint of a known kind, or not there."""
    try:
        if path.is_dir():
            return folder_checkpoint(path, [entry.name for entry in path.iterdir()])
        return file_checkpoint(path, path.stat())
    except OSError:
        return None


def content_of(path: Path) -> Content:
    """Return the content of a checkpoint; nothing is read."""
    files, size, changed = 0, 0, 0
    paths: Iterable[Path] = [path]
    if path.is_dir():
        paths = (Path(where, name) for where, _, names in os.walk(path) for name in names)
    for each in paths:
        try:
            status = each.stat()
        except OSError:
            continue  # just being deleted
        files, size, changed = files + 1, size + status.st_size, max(changed, status.st_mtime_ns)
    return Content(files, size, changed)
