"""Locks of files: held while a process lives, or for one short action."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torchdeck.contract.waiting import wait_for

LOCK_LIMIT = 20.0
"""Seconds to wait for the short action of another process."""


def try_lock(path: Path, owner: Any = None) -> int | None:
    """Hold the lock of the file at `path`, without waiting.

    Args:
        path: created if missing; its folder must exist.
        owner: JSON that names the owner, for processes that find the lock held.

    Returns:
        The descriptor that holds it until its last copy is closed; None if another process has the lock.

    Raises:
        OSError: the file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _is_taken(descriptor):
        os.close(descriptor)
        return None
    with contextlib.suppress(OSError):  # a full disk: the lock holds, only its owner's name is missing
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode("utf-8"), 0)
    return descriptor


def is_held(path: Path) -> bool:
    """Return whether any process has the lock of the file at `path`, on this host or another that shares it.

    It raises nothing, unlike `leases.lease_holder`: it supplements the identities of processes, and an
    unreadable lock proves nothing.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks: the state is unknown
        return False
    finally:
        os.close(descriptor)
    return False


@contextmanager
def locked(path: Path, seconds: float = LOCK_LIMIT) -> Iterator[int]:
    """Hold the lock of the file at `path`, which is made if need be; gives its descriptor.

    Raises:
        TimeoutError: another process, which hangs it seems, has held it for longer than `seconds`.
        OSError: the file cannot be opened.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(file, path, seconds)
        yield file
    finally:
        os.close(file)


@contextmanager
def changing(path: Path, seconds: float = LOCK_LIMIT) -> Iterator[None]:
    """Be the only process that changes the file at `path`. It may be replaced: the lock is a file next to it.

    Raises:
        TimeoutError: another process has been changing it for longer than `seconds`.
        OSError: the lock file cannot be made.
    """
    file = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            _take(file, path, seconds)
        except TimeoutError:
            raise TimeoutError(f"another process has been changing {path} for {seconds:g} s") from None
        yield
    finally:
        os.close(file)


def _take(file: int, path: Path, seconds: float) -> None:
    if not wait_for(lambda: _is_taken(file), seconds, 0.005):
        text = f"another process has held the lock for {seconds:g} s"
        raise TimeoutError(errno.ETIMEDOUT, text, str(path))


def _is_taken(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
