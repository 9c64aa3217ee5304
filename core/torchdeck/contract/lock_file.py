"""Locks that are held for as long as a process, or a child it hands them to, lives."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from pathlib import Path
from typing import Any


def try_lock(path: Path, owner: Any = None) -> int | None:
    """Hold the lock of the file at `path`, without waiting.

    Args:
        path: made if it is not there; its folder must be.
        owner: JSON that says who holds it, for those who find it held.

    Returns:
        The descriptor that holds it until its last copy is closed; None when somebody else has the lock.

    Raises:
        OSError: the file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    with contextlib.suppress(OSError):  # a full disk: the lock holds, only its owner's name is missing
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode("utf-8"), 0)
    return descriptor


def is_held(path: Path) -> bool:
    """Whether somebody has the lock of the file at `path`, on this host or another that shares it.

    It raises nothing, unlike `leases.lease_holder`: it is a witness beside the identities of processes, and
    one that cannot be heard says nothing.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks: nobody can say
        return False
    finally:
        os.close(descriptor)
    return False
