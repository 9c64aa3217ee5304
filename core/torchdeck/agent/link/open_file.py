"""Opening a mirrored file at either end: a plain file below the run directory, reached through no link."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple


class NotPlainError(Exception):
    """Something else than a plain file or folder lies where one should; the message says what and where."""


class Opened(NamedTuple):
    """A file that was opened, and what it was then: each call of the kernel is made many times a second."""

    descriptor: int
    found: os.stat_result


def open_plain(root: Path, path: str, flags: int) -> Opened:
    """Open the file at `path` below `root`.

    Args:
        root: the run directory, trusted.
        path: relative, with `/` between its parts and no `..` among them.
        flags: of `os.open`; a file that it makes is its owner's alone.

    Raises:
        NotPlainError: the file or a folder on the way is a link, a device or the like.
        OSError: it cannot be opened.
    """
    try:
        # O_NONBLOCK: a FIFO must not be waited for
        descriptor = os.open(f"{root}/{path}", flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError:
        refuse_links(root, path)
        raise
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise NotPlainError(f"{root / path} is no plain file")
    return Opened(descriptor, found)


def refuse_link(root: Path, path: str) -> None:
    """As `refuse_links`, of the last part alone."""
    try:
        mode = os.lstat(f"{root}/{path}").st_mode
    except OSError:
        return
    if stat.S_ISLNK(mode):
        raise NotPlainError(f"{root / path} is a link")


def refuse_links(root: Path, path: str) -> None:
    """Look at every part of `path` below `root` that is there.

    Raises:
        NotPlainError: one is a link, or something before the last is no folder.
    """
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        here = root.joinpath(*parts[:count])
        try:
            mode = here.lstat().st_mode
        except OSError:
            return
        if stat.S_ISLNK(mode):
            raise NotPlainError(f"{here} is a link")
        if count < len(parts) and not stat.S_ISDIR(mode):
            raise NotPlainError(f"{here} is no folder")
