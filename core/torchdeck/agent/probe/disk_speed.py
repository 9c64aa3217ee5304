"""Speed of the disk under a folder, measured within bounds of bytes and time."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.agent.probe.system import nearest

MOST_BYTES = 128 * 2**20
SECONDS = 1.0
"""For writing, and again for reading; a block that was begun is finished."""
FIRST_BLOCK = 2**18
LARGEST_BLOCK = 32 * 2**20
QUICK_BLOCK = 0.1
"""Seconds below which the next block is twice as large: on a slow disk one block must not take minutes."""
SHARE_OF_FREE = 0.05
"""Share of the free space that is written at most."""


def disk_speed(question: Mapping[str, Any]) -> dict[str, Any]:
    """Write a file into `folder`, or into its nearest existing parent, and read it back.

    Each block is on the disk before the next begins. The file has no name: whatever ends this process,
    nothing is left. What is read was dropped from this machine's cache; a file server may still have it in
    its own.

    Returns:
        `write` and `read` in bytes/s (0 if nothing could be measured), and the `bytes` written.

    Raises:
        OSError: the folder cannot be written.
    """
    place = nearest(Path(str(question["folder"])).expanduser())
    space = os.statvfs(place)
    most = min(MOST_BYTES, int(space.f_bavail * space.f_frsize * SHARE_OF_FREE))
    if most < FIRST_BLOCK:
        raise OSError(f"too little space is free at {place} to measure its speed")
    with tempfile.TemporaryFile(dir=place, buffering=0) as file:
        written, write_seconds = _write(file.fileno(), most)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        read, read_seconds = _read(file.fileno(), written)
    return {"write": written / write_seconds, "read": read / read_seconds, "bytes": written}


def _write(file: int, most: int) -> tuple[int, float]:
    content = memoryview(os.urandom(LARGEST_BLOCK))  # a disk may compress or share equal blocks
    begun = now = time.perf_counter()
    written, block = 0, FIRST_BLOCK
    while written < most and now - begun < SECONDS:
        before = now
        written += os.write(file, content[: min(block, most - written)])
        os.fdatasync(file)
        now = time.perf_counter()
        if now - before < QUICK_BLOCK:
            block = min(2 * block, LARGEST_BLOCK)
    return written, max(1e-9, now - begun)


def _read(file: int, most: int) -> tuple[int, float]:
    begun = time.perf_counter()
    done = 0
    while done < most and time.perf_counter() - begun < SECONDS:
        done += len(os.pread(file, min(2**20, most - done), done))
    return done, max(1e-9, time.perf_counter() - begun)
