"""Free bytes and inodes: a disk without inodes rejects new files with "No space left on device", too."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NamedTuple


def inodes_left(folder: Path) -> int | None:
    """Return how many files can still be created in `folder`; None if its file system has no limit or does
    not report it.

    Raises:
        OSError: the folder cannot be read.
    """
    status = os.statvfs(folder)
    if status.f_files == 0:
        return None
    if status.f_favail == 0 and not _refuses(folder):
        return None  # some file systems do not count them
    return status.f_favail


def why_refused(error: OSError, folder: Path) -> str:
    """Return the reason of a failed write in words: the kernel reports no bytes and no inodes alike."""
    words = error.strerror or str(error)
    if error.errno != errno.ENOSPC:
        return words
    place = next((each for each in (folder, *folder.parents) if each.is_dir()), folder)
    try:
        return f"no inodes left on the disk of {place}" if inodes_left(place) == 0 else words
    except OSError:
        return words


def _refuses(folder: Path) -> bool:
    import tempfile  # slow to import, and hardly ever needed

    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return error.errno == errno.ENOSPC
    return False


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
