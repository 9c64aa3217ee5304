"""Locks that are held for the time of one small action, and waited for no longer than that could take."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_LIMIT = 20.0
"""Seconds to wait for somebody else's action to end."""


@contextmanager
def locked(path: Path, seconds: float = LOCK_LIMIT) -> Iterator[int]:
    """Hold the lock of the file at `path`, which is made if need be; gives its descriptor.

    Raises:
        TimeoutError: somebody, who stands still it seems, has it longer than `seconds`.
        OSError: the file cannot be opened.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(file, path, seconds)
        yield file
    finally:
        os.close(file)


def _take(file: int, path: Path, seconds: float) -> None:
    limit = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > limit:
                raise TimeoutError(
                    errno.ETIMEDOUT, f"another process has held the lock for {seconds:g} s", str(path)
                ) from None
            time.sleep(0.005)
