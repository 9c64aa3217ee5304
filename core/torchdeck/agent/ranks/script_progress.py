"""How far a script is that reports no progress: the newest row of the metrics its rank logged or printed."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.metrics.progress import StepTimes
from torchdeck.contract.metrics.segment_format import (
    HEADER_LIMIT,
    SEGMENT_SUFFIX,
    SegmentError,
    decode_header,
)

_ROW = struct.Struct("<qd")


class ScriptStep(NamedTuple):
    """The newest row."""

    step: int
    time: float
    """Unix seconds."""


class ScriptProgress:
    """Looks at the ends of one rank's segments.

    Attributes:
        times: seconds between the rows that were seen to come; a script has no other rhythm to compare with.
    """

    def __init__(self, folder: Path) -> None:
        self.times = StepTimes()
        self.newest: ScriptStep | None = None
        self._folder = folder
        self._shapes: dict[str, tuple[int, int]] = {}
        self._sizes: dict[str, int] = {}

    def look(self) -> ScriptStep | None:
        """The newest row of all segments; None before there is one."""
        before = self.newest
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.name.endswith(SEGMENT_SUFFIX) and not entry.name.startswith("."):
                        self._take(entry.path, entry.stat().st_size)
        except OSError:
            return self.newest
        if before is not None and self.newest is not None and self.newest.time > before.time:
            self.times.add(self.newest.time - before.time)
        return self.newest

    def _take(self, path: str, size: int) -> None:
        if self._sizes.get(path) == size:
            return
        self._sizes[path] = size
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            shape = self._shapes.get(path) or self._shape(path, descriptor)
            if shape is None:
                return
            length, row_bytes = shape
            rows = (size - length) // row_bytes
            if rows > 0:
                step, time = _ROW.unpack(os.pread(descriptor, _ROW.size, length + (rows - 1) * row_bytes))
                if time > 0 and (self.newest is None or time >= self.newest.time):
                    self.newest = ScriptStep(step, time)
        except (OSError, SegmentError, struct.error):
            return
        finally:
            os.close(descriptor)

    def _shape(self, path: str, descriptor: int) -> tuple[int, int] | None:
        header = decode_header(os.pread(descriptor, min(HEADER_LIMIT, 1 << 20), 0))
        if header is None:
            return None
        self._shapes[path] = (header.length, header.row_bytes)
        return self._shapes[path]
