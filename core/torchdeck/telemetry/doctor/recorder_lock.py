"""The lock around torch's flight recorder, which forks take, too."""

from __future__ import annotations

import os
import threading

FORK_LIMIT = 5.0
"""Seconds that a fork waits for a reading to end: torch may hang in it."""


class RecorderLock:
    """Held while the recorder is read, and while the process forks.

    A fork during a reading would copy a lock of torch that is held. No file is written under this lock.
    """

    def __init__(self) -> None:
        """Take the lock in every fork from now on."""
        self._lock = threading.Lock()
        self._fork = threading.local()
        os.register_at_fork(
            before=self._before, after_in_parent=self._after_in_parent, after_in_child=self._after_in_child
        )

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _before(self) -> None:
        self._fork.holds = self._lock.acquire(timeout=FORK_LIMIT)

    def _after_in_parent(self) -> None:
        if self._fork.holds:
            self._lock.release()

    def _after_in_child(self) -> None:
        # whichever thread held it is not in the child
        self._lock = threading.Lock()
