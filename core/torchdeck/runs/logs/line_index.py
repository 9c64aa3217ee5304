"""Index of line starts in a growing file, at an eighth of a byte per line."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

STRIDE = 64
"""Lines between two stored offsets."""
CHUNK = 1 << 22
"""Bytes counted per call."""
LONGEST = 1 << 14
"""Maximum bytes returned of a line; the rest is only described."""
PIECE = 1 << 16
"""Bytes per read when reading lines."""
BLOCK = 1 << 18
"""Bytes passed to a search at once: some milliseconds, during which Python runs no other thread."""
_END = ord("\n")


class LineIndex:
    """Offsets of every 64th line of one file. Text after the last line end counts as a line, too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offsets = [0]
        self._ended = 0
        self._last_end = 0
        self._counted = 0
        self.written = 0.0
        """Unix time of the last write that is counted."""

    @property
    def lines(self) -> int:
        """Number of lines counted so far."""
        return self._ended + (self._counted > self._last_end)

    @property
    def ended(self) -> int:
        """Number of lines counted so far that have an end."""
        return self._ended

    @property
    def size(self) -> int:
        """Number of bytes counted so far."""
        return self._counted

    def advance(self, limit: int = CHUNK) -> int:
        """Count what was appended, at most `limit` bytes. Return the number of bytes counted.

        Raises:
            OSError: the file exists and cannot be read.
        """
        try:
            status = self._path.stat()
            if status.st_size == self._counted:
                return 0
            with self._path.open("rb", buffering=0) as file:
                file.seek(self._counted)
                content = file.read(limit)
        except FileNotFoundError:
            return 0
        ends = np.flatnonzero(np.frombuffer(content, np.uint8) == _END)
        first = STRIDE - self._ended % STRIDE - 1
        self._offsets += (ends[first::STRIDE] + self._counted + 1).tolist()
        self._ended += len(ends)
        if len(ends):
            self._last_end = self._counted + int(ends[-1]) + 1
        self._counted += len(content)
        self.written = status.st_mtime
        return len(content)

    def offset(self, line: int) -> int:
        """Return the start of `line` in bytes; for the line after the last, the end of the counted bytes.

        Raises:
            OSError: the file cannot be read.
        """
        return self._counted if line >= self.lines else self._start_of(line)

    def line_at(self, offset: int) -> int:
        """Return how many lines have ended at `offset` bytes: the number of the line at that position.

        Raises:
            OSError: the file cannot be read.
        """
        if offset >= self._counted:
            return self.lines
        block = int(np.searchsorted(np.asarray(self._offsets), offset, side="right")) - 1
        start = self._offsets[block]
        content = self._read(start, offset - start)
        return min(self.lines, block * STRIDE + content.count(b"\n"))

    def read(self, first: int, count: int) -> list[bytes]:
        """Read lines `first` to `first + count - 1`, without their ends; fewer at the end of the file.

        Raises:
            OSError: the file cannot be read.
        """
        first = max(0, first)
        count = min(count, self.lines - first)
        if count <= 0:
            return []
        start = self._start_of(first)
        found: list[bytes] = []
        while len(found) < count:
            content = self._read(start, PIECE)
            if not content:
                break
            *whole, rest = content.split(b"\n")
            if whole:
                whole = whole[: count - len(found)]
                start += sum(map(len, whole)) + len(whole)
                found += [_shortened(line, len(line)) for line in whole]
            else:  # longer than a piece, or the last one without an end
                end, after = self._end_of_line(start + len(content))
                found.append(_shortened(rest, end - start))
                start = after
        return found

    def block(self, first: int, count: int) -> tuple[int, bytes]:
        """Read whole lines from `first` on, unchanged. Return their number, at most `count`, and their bytes.

        They total about 256 KiB; if the first line alone is longer, it is truncated.

        Raises:
            OSError: the file cannot be read.
        """
        start = self._start_of(first)
        end = self._start_of(first + count) if first + count <= self._ended else self._counted
        content = self._read(start, min(BLOCK, end - start))
        if start + len(content) >= end:
            return count, content
        whole = content.rfind(b"\n") + 1
        return (content.count(b"\n"), content[:whole]) if whole else (1, content)

    def _end_of_line(self, at: int) -> tuple[int, int]:
        """Return the end of the line at byte `at`, and the start of the next one."""
        while content := self._read(at, CHUNK):
            end = content.find(b"\n")
            if end >= 0:
                return at + end, at + end + 1
            at += len(content)
        return at, at

    def _start_of(self, line: int) -> int:
        block, rest = divmod(line, STRIDE)
        at = self._offsets[block]
        while rest:
            content = self._read(at, PIECE)
            if not content:
                return at
            ends = np.flatnonzero(np.frombuffer(content, np.uint8) == _END)
            if len(ends) >= rest:
                return at + int(ends[rest - 1]) + 1
            rest -= len(ends)
            at += len(content)
        return at

    def _read(self, start: int, length: int) -> bytes:
        length = min(length, self._counted - start)
        if length <= 0:
            return b""
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, length, start)
        finally:
            os.close(descriptor)


def _shortened(line: bytes, length: int) -> bytes:
    if length <= LONGEST:
        return line
    return line[:LONGEST] + f" … {length - LONGEST:,} more bytes".encode()
