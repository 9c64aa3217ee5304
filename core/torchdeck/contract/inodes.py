"""Free inodes: a disk without any refuses new files with "No space left on device"."""

from __future__ import annotations

import errno
import os
from pathlib import Path


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
