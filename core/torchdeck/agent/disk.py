"""Is there room for what the run will still write?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

CHECKPOINT_FACTOR = 1.5
"""Times the last checkpoint's size that must be free: a new one is whole before an old one goes."""


class LowDisk(NamedTuple):
    """A folder with too little room; sizes in bytes."""

    free: int
    needed: int
    path: str


def free_bytes(folder: Path) -> int:
    """Bytes that this user may still write where `folder` is, or will be.

    Raises:
        OSError: not even its parents can be asked.
    """
    for place in (folder, *folder.parents):
        if place.exists():
            status = os.statvfs(place)
            return status.f_bavail * status.f_frsize
    raise FileNotFoundError(f"no part of {folder} exists")


def low_disk(run_dir: Path, checkpoints: Path, min_free: int, last_checkpoint: int) -> LowDisk | None:
    """The first folder with too little room, None when all have enough; sizes in bytes."""
    wanted = ((run_dir, min_free), (checkpoints, max(min_free, int(CHECKPOINT_FACTOR * last_checkpoint))))
    for folder, needed in wanted:
        free = free_bytes(folder)
        if free < needed:
            return LowDisk(free, needed, str(folder))
    return None
