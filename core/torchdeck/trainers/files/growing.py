"""A file that another program appends to, followed from where the last read ended."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from torchdeck.contract.bounded_file import UnreadableFileError, open_regular
from torchdeck.trainers.reading import Reading

CHUNK = 256 * 1024
"""Bytes per read."""
LINE_LIMIT = 64 * 1024
"""Longest line that is parsed; a longer one is left out."""


class FileReader(ABC):
    """Reader of one file of one program.

    Attributes:
        more: whether the last read left something unread.
        limit: seconds that one read may take, of a reader that could take long; None: its own limit.
    """

    more = False
    limit: float | None = None

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def read(self) -> list[Reading]:
        """Return what was added since the last call, up to some 256 KiB. Never raises."""


class GrowingFile:
    """The bytes of a file that is appended to.

    Attributes:
        offset: bytes that have been used.
        restarts: how often the file was replaced or truncated.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self.restarts = 0
        self.size = 0
        self._inode: int | None = None

    def piece(self, limit: int = CHUNK) -> bytes:
        """Return unused bytes, at most `limit`; empty if there are none or they cannot be read."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - once a second for each file: no Path is made
            replaced = self._inode is not None and found.st_ino != self._inode
            self._inode, self.size = found.st_ino, found.st_size
            if replaced or found.st_size < self.offset:
                self.offset = 0
                self.restarts += 1
            if found.st_size == self.offset:
                return b""
            with open_regular(self.path) as file:
                return os.pread(file.fileno(), limit, self.offset)
        except (OSError, UnreadableFileError):
            return b""

    @property
    def behind(self) -> bool:
        """Whether bytes were left unused, as of the last piece."""
        return self.size > self.offset


class LineFile(FileReader):
    """Reader of a file whose every line is a record of its own."""

    def __init__(self, path: Path, begin: int = 0) -> None:
        """Create a reader.

        Args:
            path: the file.
            begin: its length when the run began; what is before is another run's.
        """
        super().__init__(path)
        self._file = GrowingFile(path, begin)
        self._too_long = False

    def read(self) -> list[Reading]:
        found: list[Reading] = []
        for line in self._lines():
            try:
                reading = self.reading(line)
            except (ValueError, TypeError, OverflowError, KeyError):
                continue
            if reading is not None:
                found.append(reading)
        return found

    @abstractmethod
    def reading(self, line: bytes) -> Reading | None:
        """Return what one line reports; None for nothing. It may raise the errors of a wrong value."""

    def _lines(self) -> Iterator[bytes]:
        file = self._file
        piece = file.piece()
        end = piece.rfind(b"\n") + 1
        skips = not end and len(piece) > LINE_LIMIT
        if skips:
            file.offset += len(piece)
            self._too_long = True
        file.offset += end
        self.more = (end > 0 or skips) and file.behind
        for line in piece[:end].split(b"\n")[:-1]:
            if not self._too_long and 0 < len(line) <= LINE_LIMIT:
                yield line
            self._too_long = False
