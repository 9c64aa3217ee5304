"""A metrics segment being written: each row at its own offset, each block of rows with a checksum.

Standard library, Python 3.10: this runs in the ranks and in the agent.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.metrics.checksums import block_rows, has_hole, write_checksum
from torchdeck.contract.metrics.segment_format import encode_header


class _File(NamedTuple):
    path: Path
    descriptor: int
    """-1 while it is closed."""
    offsets: Iterator[int]
    """Offsets of rows. `next` of a count is atomic for threads and signal handlers: no lock is needed."""


class Table:
    """The rows of one set of names. Its file is created by `open` and is always a new one."""

    def __init__(self, keys: tuple[str, ...], *, spilled: bool) -> None:
        """Create a table without a file.

        Args:
            keys: sorted names.
            spilled: open the file again for each row, as one of thousands; a process can often have only
                1,024 open.
        """
        layout = struct.Struct(f"<qd{len(keys)}d")
        self.keys = keys
        self.pack = layout.pack
        self.spilled = spilled
        self.last_step = -1
        self._row_bytes = layout.size
        self._file: _File | None = None
        self._block_bytes = block_rows(layout.size) * layout.size
        self._first_offset = self._block_begin = self._block_end = 0
        """Offsets of the block of rows that gets the next checksum."""
        self._failed: list[int] = []
        """Offsets whose row failed; the next rows go there, so that a cut row never stays in the middle."""

    def write(self, row: bytes) -> None:
        """Write one row.

        Raises:
            OSError: the disk is full or gone; the offset is used again.
            TypeError: there is no file.
        """
        path, descriptor, offsets = self._file  # type: ignore[misc]
        offset = self._failed.pop() if self._failed else next(offsets)
        written = 0
        try:
            if descriptor >= 0:
                written = os.pwrite(descriptor, row, offset)
            else:
                written = _write_once(path, row, offset)
        finally:
            if written != self._row_bytes:
                self._failed.append(offset)
        if offset >= self._block_end:
            self._seal(offset)
        if written != self._row_bytes:
            raise OSError(f"only {written} of {self._row_bytes} bytes of a row could be written")

    def open(self, source: str, new_path: Callable[[], Path]) -> None:
        """Create the file unless there is one.

        A signal handler that logs in the middle of this creates a file too. Each is new, and the one to keep
        is stored atomically, so whatever was written stays.

        Raises:
            OSError: nothing is left behind in this case.
        """
        if self._file is not None:
            return
        path = new_path()
        header = encode_header(self.keys, source, created=time.time())
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        written = 0
        try:
            written = os.pwrite(descriptor, header, 0)
        finally:
            if self.spilled or written != len(header):
                os.close(descriptor)
            if written != len(header):
                path.unlink(missing_ok=True)
        if written != len(header):
            raise OSError(f"only {written} of {len(header)} bytes of a header could be written")
        self._first_offset = self._block_begin = len(header)
        self._block_end = len(header) + self._block_bytes
        offsets = itertools.count(len(header), self._row_bytes)
        self._file = _File(path, -1 if self.spilled else descriptor, offsets)

    def seal_rest(self) -> None:
        """Write the checksum of the rows after the last whole block; no row is written after that.

        Thousands of tables with a few rows each do not get another file each.
        """
        if self._file is not None and not self.spilled:
            self._seal(next(self._file.offsets))

    def _seal(self, end: int) -> None:
        """Write the checksum of the block that ends at `end` at the latest.

        It gets none if a row of it is missing: another thread may be about to write it.
        """
        begin, end = self._block_begin, min(self._block_end, end)
        self._block_begin, self._block_end = begin + self._block_bytes, begin + 2 * self._block_bytes
        if self._file is None or end == begin or self._failed:
            return
        with contextlib.suppress(OSError):  # a full disk, say: the rows count without it
            rows = self._rows(end - begin, begin)
            if len(rows) == end - begin and not has_hole(rows, self._row_bytes):
                block = (begin - self._first_offset) // self._block_bytes
                write_checksum(self._file.path, block, rows, self._row_bytes)

    def _rows(self, size: int, offset: int) -> bytes:
        path, descriptor, _ = self._file  # type: ignore[misc]  # its caller has looked
        if descriptor >= 0:
            return os.pread(descriptor, size, offset)
        with path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), size, offset)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None and file.descriptor >= 0:
            os.close(file.descriptor)


def _write_once(path: Path, row: bytes, offset: int) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        return os.pwrite(descriptor, row, offset)
    finally:
        os.close(descriptor)
