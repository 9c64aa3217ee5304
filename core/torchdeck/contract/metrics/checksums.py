"""Checksums of the rows of a metrics segment, in a file beside it: one entry per block of rows.

Entry k is at byte 12 k: the number of rows in block k, the CRC-32 of their bytes, the CRC-32 of both and k.
A block gets its entry once all its rows are written; the last one may have fewer rows. Older versions do not
read the file.

Standard library, Python 3.10: written in the ranks.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from pathlib import Path

from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.metrics.segment_format import SegmentHeader

CHECKSUMS_SUFFIX = ".sums"
SETTLED = 60.0
"""Seconds without a change after which no row is on its way to a mirrored segment any more."""
_BLOCK_BYTES = 64 * 1024
_MOST_ROWS, _LEAST_ROWS = 512, 16
_MOST_ENTRIES = 65_536
"""Entries read at once."""
_ENTRY = struct.Struct("<III")
_SEAL = struct.Struct("<QII")


def checksums_path(segment: Path) -> Path:
    """Return the file with the checksums of a segment."""
    return segment.with_suffix(CHECKSUMS_SUFFIX)


def block_rows(row_bytes: int) -> int:
    """Return how many rows share a checksum."""
    return max(_LEAST_ROWS, min(_MOST_ROWS, _BLOCK_BYTES // row_bytes))


def has_hole(rows: bytes, row_bytes: int) -> bool:
    """Return whether a row was never written: its time is 0."""
    return 0.0 in memoryview(rows).cast("d")[1 :: row_bytes // 8].tolist()


def write_checksum(segment: Path, block: int, rows: bytes, row_bytes: int) -> None:
    """Write the entry of a block. Raises OSError."""
    descriptor = os.open(checksums_path(segment), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, _entry(block, len(rows) // row_bytes, zlib.crc32(rows)), block * _ENTRY.size)
    finally:
        os.close(descriptor)


def _entry(block: int, rows: int, checksum: int) -> bytes:
    return _ENTRY.pack(rows, checksum, zlib.crc32(_SEAL.pack(block, rows, checksum)))


class ChecksumReader:
    """Compares the rows of a segment with their checksums, each block once it is whole."""

    def __init__(self, segment: Path, header: SegmentHeader) -> None:
        self._damaged: list[tuple[int, int]] = []
        self._missing: list[tuple[int, int]] = []
        self._segment, self._header = segment, header
        self._block_rows = block_rows(header.row_bytes)
        self._next = 0
        self._pending: list[tuple[int, int, int]] = []
        """Blocks with rows that have not arrived yet: number, rows, checksum."""
        self._seen: tuple[int, int, bool] | None = None
        """Time and length of the segment when they were compared, and whether none could arrive any more."""

    @property
    def damaged(self) -> list[tuple[int, int]]:
        """Blocks that differ, as (first row, last row + 1)."""
        return sorted((*self._damaged, *self._missing))

    def check(self, budget: int, *, is_over: bool = True) -> int:
        """Compare blocks that have become whole; return the bytes of rows read, about `budget` at most.

        Args:
            budget: bytes.
            is_over: the run has ended. Until then rows may be on their way, however late.

        Raises:
            OSError: the segment cannot be read.
        """
        try:
            with open_regular(checksums_path(self._segment)) as file:
                file.seek(self._next * _ENTRY.size)
                most = min(_MOST_ENTRIES, max(1, budget // (self._block_rows * self._header.row_bytes)))
                entries = file.read(most * _ENTRY.size)
        except FileNotFoundError:
            return 0
        waiting = []
        for at in range(0, len(entries) - _ENTRY.size + 1, _ENTRY.size):
            rows, checksum, _ = _ENTRY.unpack_from(entries, at)
            if 0 < rows <= self._block_rows and entries[at : at + _ENTRY.size] == _entry(
                self._next, rows, checksum
            ):
                waiting.append((self._next, rows, checksum))
            self._next += 1  # another one is no entry: its block had a row missing, or it is damaged itself
        with open_regular(self._segment) as file:
            status = os.fstat(file.fileno())
            is_final = is_over and time.time() - status.st_mtime > SETTLED
            seen = status.st_mtime_ns, status.st_size, is_final
            if seen != self._seen:
                waiting, self._pending, self._seen = self._pending + waiting, [], seen
            read = sum(self._compare(file.fileno(), *each) for each in waiting)
        self._missing = [self._rows(block, rows) for block, rows, _ in self._pending] if is_final else []
        return read

    def _rows(self, block: int, rows: int) -> tuple[int, int]:
        return block * self._block_rows, block * self._block_rows + rows

    def _compare(self, descriptor: int, block: int, rows: int, checksum: int) -> int:
        first, width = block * self._block_rows, self._header.row_bytes
        content = os.pread(descriptor, rows * width, self._header.length + first * width)
        if zlib.crc32(content) == checksum:
            return len(content)
        if len(content) < rows * width or has_hole(content, width):
            self._pending.append((block, rows, checksum))
        else:
            self._damaged.append(self._rows(block, rows))
        return len(content)
