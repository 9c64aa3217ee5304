"""Whether a file has changed since it was looked at last, by what its folder says of it."""

from __future__ import annotations

import os
import stat
import time
from typing import NamedTuple

TICK = 0.1
"""Seconds within which a file may change twice and its time only once: the kernel's clock ticks."""


class Stamp(NamedTuple):
    """Fingerprint of a file: it changes if the file does."""

    inode: int
    size: int
    changed: int
    """Nanoseconds of its last change, by the file system's clock."""


class ChangeWatch:
    """Looks at one file or folder again and again.

    Attributes:
        size: bytes of it when it was looked at last; 0 before.
        is_link: it was a symbolic link then.
    """

    def __init__(self, path: str) -> None:
        self.size = 0
        self.is_link = False
        self._path = path
        self._stamp: Stamp | None = None
        self._fresh = True

    def look(self) -> bool:
        """Whether the file may be another than at the last look. Raises OSError when it is gone."""
        found = os.lstat(self._path)
        stamp = Stamp(found.st_ino, found.st_size, found.st_mtime_ns)
        news = stamp != self._stamp
        self._stamp, self.size = stamp, found.st_size
        self.is_link = stat.S_ISLNK(found.st_mode)
        # within a tick of the clock a change need not show
        again, self._fresh = self._fresh, abs(time.time() - found.st_mtime) < TICK or news
        return news or again
