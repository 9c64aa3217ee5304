"""Files that another process or machine wrote, read without blocking and up to a size."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class UnreadableFileError(ValueError):
    """It is too large, or no regular file; the message says which."""


def read_bounded(path: Path, limit: int) -> bytes:
    """The content of the regular file at `path`.

    A FIFO, a device or a folder is refused at once: opening a FIFO would wait for a writer.

    Args:
        path: symbolic links are followed.
        limit: bytes that it may have at most. No more is read, even if its size says less (as in /proc).

    Raises:
        OSError: it cannot be opened or read.
        UnreadableFileError: it is longer than `limit`, or no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFileError(f"{path} is not a regular file")
        content = b"" if status.st_size > limit else _up_to(descriptor, limit + 1)
    finally:
        os.close(descriptor)
    if status.st_size > limit or len(content) > limit:
        raise UnreadableFileError(f"{path} is too large: more than {limit} bytes")
    return content


def _up_to(descriptor: int, size: int) -> bytes:
    pieces = []
    while size > 0 and (piece := os.read(descriptor, min(size, 1 << 20))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
