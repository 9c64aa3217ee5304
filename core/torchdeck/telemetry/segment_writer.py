"""One metrics segment being written: rows at offsets of their own."""

from __future__ import annotations

import itertools
import os
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.metrics.segment_format import encode_header


class _File(NamedTuple):
    path: Path
    descriptor: int
    """-1 while it is closed."""
    offsets: Iterator[int]
    """Where rows go. `next` of a count is one step to threads and signal handlers: no lock is needed."""


class Table:
    """The rows of one set of names. Its file is made by `open` and is always a new one."""

    def __init__(self, keys: tuple[str, ...], *, spilled: bool) -> None:
        """A table without a file.

        Args:
            keys: sorted names.
            spilled: open the file anew for each row, as one of thousands; a process may often have 1,024
                open.
        """
        layout = struct.Struct(f"<qd{len(keys)}d")
        self.keys = keys
        self.pack = layout.pack
        self.spilled = spilled
        self.last_step = -1
        self._row_bytes = layout.size
        self._file: _File | None = None
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
        if written != self._row_bytes:
            raise OSError(f"only {written} of {self._row_bytes} bytes of a row could be written")

    def open(self, source: str, new_path: Callable[[], Path]) -> None:
        """Make the file unless there is one.

        A signal handler that logs in the middle of this makes a file too. Each is new, and the one that is
        kept is kept in one step, so whatever was written stays.

        Raises:
            OSError: nothing is then left behind.
        """
        if self._file is not None:
            return
        path = new_path()
        header = encode_header(self.keys, source, created=time.time())
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
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
        offsets = itertools.count(len(header), self._row_bytes)
        self._file = _File(path, -1 if self.spilled else descriptor, offsets)

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
