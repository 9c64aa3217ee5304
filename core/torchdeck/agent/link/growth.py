"""A file that grows, read from where the other end has it: every byte once, and again where it changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from torchdeck.agent.link.mirrored_file import TAIL, ChangeWatch, Have, agreed, first_difference, open_plain
from torchdeck.agent.link.names import Mirrored
from torchdeck.contract.byte_size import size


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
        """Go on from what the other end has.

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
        """Go back to where the file is not any more what was sent."""
        if found.st_ino != self._inode:
            self._inode = found.st_ino
            self._go_to(0, b"", at, found.st_size)
            return
        begin = at - len(self._tail)
        same = first_difference(self._tail, os.pread(descriptor, len(self._tail), begin))
        if same < len(self._tail):
            self._go_to(begin + same if same else 0, self._tail[:same], at, found.st_size)

    def _go_to(self, offset: int, tail: bytes, theirs: int, size: int) -> None:
        """Send from `offset` on, before which `tail` lies, to an end that has `theirs` bytes."""
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
