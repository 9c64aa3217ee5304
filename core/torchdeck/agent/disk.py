"""Is there room for what the run will still write?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.inodes import inodes_left

CHECKPOINT_FACTOR = 1.5
"""Times the last checkpoint's size that must be free: a new one is whole before an old one goes."""
INODES_NEEDED = 256
"""Files that a run must be able to make: a checkpoint, segments of metrics, logs."""


class LowDisk(NamedTuple):
    """A folder with too little room; sizes in bytes, or in files."""

    free: int
    needed: int
    path: str
    inodes: bool = False
    """There is room for bytes, but not for files."""

    @property
    def text(self) -> str:
        """Describe the available and the needed amount."""
        if self.inodes:
            return (
                f"only {self.free} inodes are left in {self.path}, {self.needed} needed: delete small files"
            )
        return f"{_mib(self.free)} are free in {self.path}, {_mib(self.needed)} needed"


def free_bytes(folder: Path) -> int:
    """Bytes that this user may still write where `folder` is, or will be.

    Raises:
        OSError: not even its parents can be asked.
    """
    status = os.statvfs(existing_folder(folder))
    return status.f_bavail * status.f_frsize


def low_disk(run_dir: Path, checkpoints: Path, min_free: int, last_checkpoint: int) -> LowDisk | None:
    """The first folder with too little room, None when all have enough; sizes in bytes.

    With `min_free` 0, which asks for nothing, inodes are not looked at either.
    """
    wanted = ((run_dir, min_free), (checkpoints, max(min_free, int(CHECKPOINT_FACTOR * last_checkpoint))))
    for folder, needed in wanted:
        free = free_bytes(folder)
        if free < needed:
            return LowDisk(free, needed, str(folder))
        left = inodes_left(existing_folder(folder)) if min_free else None
        if left is not None and left < INODES_NEEDED:
            return LowDisk(left, INODES_NEEDED, str(folder), inodes=True)
    return None


def existing_folder(folder: Path) -> Path:
    """`folder`, or the nearest around it that exists. Raises FileNotFoundError."""
    for place in (folder, *folder.parents):
        if place.exists():
            return place
    raise FileNotFoundError(f"no part of {folder} exists")


def _mib(count: float) -> str:
    """Bytes in the unit that people set the limit in."""
    return f"{count / 2**20:,.0f} MiB"
