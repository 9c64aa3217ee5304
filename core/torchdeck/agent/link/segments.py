"""A metrics segment as it is mirrored: whole rows, and none before those that it follows.

Threads take their rows' offsets before they write them, so a row may be written after one that lies behind
it. What is not whole is held back for a while; what is not made whole in that time is what a crash left, and
goes as it is. A row that is mended after that lies near the end, and `GrowingFile` looks there.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from torchdeck.agent.link.growth import GrowingFile
from torchdeck.agent.link.names import Mirrored
from torchdeck.contract.metrics.segment_format import HEADER_LIMIT, SegmentError, SegmentHeader, decode_header

HOLD = 2.0
"""Seconds to wait for an incomplete row: long compared with the time a thread takes to write one."""
_WORD = 8
_USUAL_HEADER = 16 * 1024


class SegmentFile(GrowingFile):
    """One metrics segment."""

    def __init__(self, root: Path, path: str, kind: Mirrored) -> None:
        super().__init__(root, path, kind)
        self._header: SegmentHeader | None = None
        self._plain = False
        self._settled = 0
        self._mark: tuple[int, float] | None = None

    def _ready(self, descriptor: int, at: int, data: bytes) -> int:
        if self._plain or not data:
            return len(data)
        end = at + len(data)
        sound = at + self._sound(descriptor, at, data)
        now = time.monotonic()
        if self._mark is not None and now - self._mark[1] >= HOLD:
            self._settled, self._mark = self._mark[0], None
        allowed = max(sound, min(self._settled, end))
        if allowed < end and self._mark is None:
            self._mark = (os.fstat(descriptor).st_size, now)
        return max(0, allowed - at)

    @property
    def _waits(self) -> bool:
        return self._mark is not None and self.behind > 0

    def _sound(self, descriptor: int, at: int, data: bytes) -> int:
        """How much of `data`, which lies at `at`, is header and rows up to the first that was not written."""
        header = self._read_header(descriptor)
        if header is None:
            return len(data) if self._plain else 0
        row = header.row_bytes
        begin = max(header.length, at + (header.length - at) % row) - at
        if begin > len(data):
            return 0
        count = (len(data) - begin) // row
        words = memoryview(data)[begin : begin + count * row].cast("Q")
        times = words[1 :: row // _WORD].tolist()
        return begin + row * (times.index(0) if 0 in times else count)

    def _read_header(self, descriptor: int) -> SegmentHeader | None:
        if self._header is None:
            try:
                self._header = decode_header(os.pread(descriptor, _USUAL_HEADER, 0))
                if self._header is None:
                    self._header = decode_header(os.pread(descriptor, HEADER_LIMIT, 0))
            except SegmentError:
                self._plain = True  # mirrored all the same: its reader says what is wrong with it
        return self._header
