"""Opening a mirrored file at either end: a plain file below the run directory, reached through no link."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.agent.link.names import Mirrored
from torchdeck.contract.byte_size import size


class NotPlainError(Exception):
    """There is something else than a plain file or folder at a path; the message names both."""


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
        """Parse a frame's head. Raises ValueError if it is invalid."""
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


# A file that grows, read from where the other end has it: every byte once, and again where it changed.


class Put(NamedTuple):
    """Bytes of a file, to lie at `at`, which is not beyond its end."""

    at: int
    data: bytes
    last: bool = True
    """Whether these are the last bytes of a file that is replaced whole."""


class Cut(NamedTuple):
    """The file is only `size` bytes long."""

    size: int


class GrowingFile:
    """One file that is appended to.

    Attributes:
        path: relative to the run directory.
        offset: up to where the other end has it; None until it has said so.
    """

    def __init__(self, root: Path, path: str, kind: Mirrored) -> None:
        self.path = path
        self.kind = kind
        self.offset: int | None = None
        self._root = root
        self._watch = ChangeWatch(str(root / path))
        self._tail = b""
        self._inode = 0
        self._cut: int | None = None

    @property
    def behind(self) -> int:
        """Bytes that the other end lacks, as far as was seen."""
        return max(0, self._watch.size - (self.offset or 0))

    def look(self) -> bool:
        """Whether there may be something to send. Raises OSError when the file is gone."""
        return self._watch.look() or self._cut is not None or self._waits

    def resume(self, theirs: Have) -> None:
        """Continue from what the other end has.

        Raises:
            NotPlainError: there is a link in the file's place.
            OSError: it cannot be read.
        """
        descriptor, found = open_plain(self._root, self.path, os.O_RDONLY)
        try:
            self._inode = found.st_ino
            tail = agreed(descriptor, theirs, found.st_size) or b""
            begin = max(0, theirs.size - TAIL)
            self._go_to(begin + len(tail) if tail else 0, tail, theirs.size, found.st_size)
        finally:
            os.close(descriptor)

    def forget(self) -> None:
        """The other end passes over what is on its way; it will be asked again what it has."""
        self.offset = None

    def read(self, limit: int) -> Put | Cut | None:
        """Return what to send next, at most `limit` bytes; None if there is nothing now.

        Raises:
            NotPlainError: there is a link in the file's place.
            OSError: it cannot be read.
            ValueError: it is too long.
        """
        if self.offset is None:
            return None
        descriptor, found = open_plain(self._root, self.path, os.O_RDONLY)
        try:
            self._check(descriptor, found, self.offset)
            if self._cut is not None:
                cut, self._cut = Cut(self._cut), None
                return cut
            if self.offset >= self.kind.limit < found.st_size:
                raise ValueError(f"{self.path} is longer than {size(self.kind.limit)}, and the rest of")
            # no more than there is: room for `limit` bytes costs more than reading a row
            end = min(found.st_size, self.kind.limit)
            return self._next(descriptor, self.offset, min(limit, end - self.offset))
        finally:
            os.close(descriptor)

    def _next(self, descriptor: int, at: int, limit: int) -> Put | None:
        if limit <= 0:
            return None
        data = os.pread(descriptor, limit, at)
        data = data[: self._ready(descriptor, at, data)]
        if not data:
            return None
        self.offset = at + len(data)
        self._tail = (self._tail + data[-TAIL:])[-TAIL:]
        return Put(at, data)

    def _check(self, descriptor: int, found: os.stat_result, at: int) -> None:
        """Go back to the first byte that differs from what was sent."""
        if found.st_ino != self._inode:
            self._inode = found.st_ino
            self._go_to(0, b"", at, found.st_size)
            return
        begin = at - len(self._tail)
        same = first_difference(self._tail, os.pread(descriptor, len(self._tail), begin))
        if same < len(self._tail):
            self._go_to(begin + same if same else 0, self._tail[:same], at, found.st_size)

    def _go_to(self, offset: int, tail: bytes, theirs: int, size: int) -> None:
        """Send from `offset` on, which `tail` precedes, to a peer that has `theirs` bytes."""
        self.offset = offset
        self._tail = tail
        if size < theirs or offset == 0 < theirs:
            self._cut = offset

    def _ready(self, descriptor: int, at: int, data: bytes) -> int:  # noqa: ARG002 - for those who look closer
        """How many bytes of `data`, which lies at `at` and may go up to the file's end, may be sent now."""
        return len(data)

    @property
    def _waits(self) -> bool:
        """Something is held back that may go later without any change of the file."""
        return False
