"""Data from nodes that a nearly full disk here still accepts: logs are held back first, then metrics."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from torchdeck.agent.link.names import NOTHING, Level

LOGS_ROOM = 1024 * 1024 * 1024
"""Free bytes below which logs stay on their nodes; less on a small disk, see `_SHARE`."""
METRICS_ROOM = 256 * 1024 * 1024
"""The same for metrics. Events and heartbeats are always accepted."""
_SHARE = 20
"""A twentieth of the disk is enough, however small it is."""
_AGAIN = 1.25
"""Multiple of these bytes that must be free before held-back data is accepted again."""
_INTERVAL = 1.0


class DiskRoom:
    """Decides by the free space of one disk. Queries the kernel at most once per second. For one thread.

    Args:
        folder: any on that disk.
        clock: monotonic seconds.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._due = 0.0
        self._held = NOTHING
        self.free = 0
        """Bytes at the last look."""

    def held(self) -> int:
        """Level from which on nothing is to be sent; `NOTHING`: everything is."""
        now = self._clock()
        if now < self._due:
            return self._held
        self._due = now + _INTERVAL
        try:
            status = os.statvfs(self._folder)
        except OSError:
            return self._held
        self.free = status.f_bavail * status.f_frsize
        self._held = self._decided(self.free, status.f_blocks * status.f_frsize // _SHARE)
        return self._held

    def _decided(self, free: int, share: int) -> int:
        for level, room in ((Level.METRICS, METRICS_ROOM), (Level.LOGS, LOGS_ROOM)):
            least = min(room, share * room // LOGS_ROOM)
            if free < least * (_AGAIN if self._held <= level else 1.0):
                return level
        return NOTHING
