"""Opening a mirrored file at either end: a plain file below the run directory, reached through no link."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


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


# The end of what both sides have of a file: by it they find out whether they have the same.
#
# A file that only grows never differs there. One that was cut, replaced, or had a hole filled does; a power
# cut takes bytes from the end, too.

TAIL = 4096
"""Bytes before an offset that are compared."""
HALF = TAIL // 2


class Have(NamedTuple):
    """Part of a file that the controller already has."""

    size: int
    older: str = ""
    """Digest of the bytes from `TAIL` to `HALF` before the end."""
    newer: str = ""
    """Digest of the last `HALF` bytes."""
    whole: str = ""
    """Digest of all of a file that is replaced whole."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Have:
        """From a frame's head. Raises ValueError where it is none."""
        size, texts = value.get("size"), [value.get(name, "") for name in cls._fields[1:]]
        if not isinstance(size, int) or size < 0 or not all(isinstance(text, str) for text in texts):
            raise ValueError("what the other end has of a file is no size and digests")
        return cls(size, *texts)


def digest(data: bytes) -> str:
    """A short digest, against accidents."""
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def tail_of(descriptor: int, end: int) -> bytes:
    """The bytes of a file before `end`, at most `TAIL`."""
    return os.pread(descriptor, min(TAIL, end), max(0, end - TAIL))


def have(descriptor: int, size: int) -> Have:
    """Return what exists of a growing file, up to `size`."""
    tail = tail_of(descriptor, size)
    return Have(size, digest(tail[:-HALF]), digest(tail[-HALF:]))


def agreed(descriptor: int, theirs: Have, size: int) -> bytes | None:
    """The bytes before the end of what both ends have of a file of `size` bytes; None where they differ.

    What is returned ends at `theirs.size`, or `HALF` bytes before it.
    """
    if theirs.size > size:
        return None
    tail = tail_of(descriptor, theirs.size)
    if digest(tail[:-HALF]) != theirs.older:
        return None
    return tail if digest(tail[-HALF:]) == theirs.newer else tail[:-HALF]


def first_difference(one: bytes, other: bytes) -> int:
    """Where two tails of one offset differ first; the shorter one's length where they do not."""
    if one == other[: len(one)]:
        return len(one)
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


# Whether a file has changed since it was looked at last, by what its folder says of it.

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
