"""One metrics segment being written: rows at offsets of their own."""

from __future__ import annotations

import itertools
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from torchdeck.telemetry.segment_format import encode_header


class Table:
    """One segment being written."""

    def __init__(self, path: Path, keys: tuple[str, ...], *, spilled: bool) -> None:
        layout = struct.Struct(f"<qd{len(keys)}d")
        self.path = path
        self.keys = keys
        self.pack = layout.pack
        self.spilled = spilled
        """Opened anew for each row: there may be thousands, and a process may often have 1,024 files open."""
        self.last_step = -1
        self._descriptor = -1
        self._row_bytes = layout.size
        self._made = False
        self._offsets: Iterator[int] = iter(())
        """Where rows go. `next` of a count is one step to threads and signal handlers: no lock is needed."""
        self._failed: list[int] = []
        """Offsets whose row failed; the next rows go there, so that a cut row never stays in the middle."""

    def write(self, row: bytes) -> None:
        """Write one row.

        Raises:
            OSError: the disk is full or gone; the offset is used again.
            StopIteration: the table was never opened.
        """
        offset = self._failed.pop() if self._failed else next(self._offsets)
        written = 0
        try:
            written = os.pwrite(self._descriptor, row, offset)
        finally:
            if written != self._row_bytes:
                self._failed.append(offset)
        if written != self._row_bytes:
            raise OSError(f"only {written} of {self._row_bytes} bytes of a row could be written")

    def open(self, source: str) -> None:
        """Open the file unless it is open; the first time it is made, and it must not exist.

        Raises:
            OSError: nothing is then left behind.
        """
        if self._descriptor >= 0:
            return
        if self._made:
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
            return
        header = encode_header(self.keys, source, created=time.time())
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        written = 0
        try:
            written = os.pwrite(descriptor, header, 0)
        finally:
            if written != len(header):
                os.close(descriptor)
                self.path.unlink(missing_ok=True)
        if written != len(header):
            raise OSError(f"only {written} of {len(header)} bytes of a header could be written")
        self._offsets = itertools.count(len(header), self._row_bytes)
        self._descriptor, self._made = descriptor, True

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
