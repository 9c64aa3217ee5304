"""Rows of chosen metrics of one rank, each once, as its program and its output write them."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.metrics.segment_format import (
    HEADER_LIMIT,
    SEGMENT_SUFFIX,
    SOURCES,
    STEP_BYTES,
    TIME_BYTES,
    VALUE_BYTES,
    SegmentError,
    SegmentHeader,
    decode_header,
)

READ_LIMIT = 1 << 20
"""Bytes of one segment that one look reads; the rest follows."""
HOLES = 64
"""Rows after one that is not written yet, within which it is waited for."""
_ROW = struct.Struct("<qd")
_VALUE = struct.Struct("<d")
_USUAL_HEADER = 16 * 1024


class MetricRow(NamedTuple):
    """One value."""

    time: float
    """Unix seconds."""
    step: int
    name: str
    role: str
    value: float


class _Segment(NamedTuple):
    header: SegmentHeader
    columns: tuple[tuple[str, str, int], ...]
    """Name, role, and offset in the row, of each chosen metric."""


class MetricRows:
    """Follows one rank's folder of segments. Of two sources of a role the more trusted one counts."""

    def __init__(self, folder: Path, role_of: Callable[[str], str | None]) -> None:
        """Create a reader.

        Args:
            folder: metrics of the rank (`RankLayout.metrics`).
            role_of: returns the role of a metric that is wanted, else None.
        """
        self._folder = folder
        self._role_of = role_of
        self._segments: dict[str, _Segment] = {}
        self._offsets: dict[str, int] = {}
        self._trusted: dict[str, int] = {}
        """Role → index in SOURCES of its most trusted source."""

    def look(self) -> list[MetricRow]:
        """Return the new rows, in order of time."""
        found: list[tuple[int, MetricRow]] = []
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith(SEGMENT_SUFFIX) and not entry.name.startswith("."):
                    with contextlib.suppress(OSError, SegmentError, struct.error):
                        found += self._read(entry.path, entry.stat().st_size)
        return sorted(row for trust, row in found if trust <= self._trusted[row.role])

    def _read(self, path: str, size: int) -> list[tuple[int, MetricRow]]:
        if self._offsets.get(path, 0) >= size:
            return []
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            segment = self._segments.get(path) or self._open(path, descriptor)
            if segment is None or not segment.columns:
                return []
            content = os.pread(descriptor, READ_LIMIT, self._offsets[path])
        finally:
            os.close(descriptor)
        return self._rows(path, segment, content)

    def _open(self, path: str, descriptor: int) -> _Segment | None:
        header = decode_header(os.pread(descriptor, _USUAL_HEADER, 0))
        header = header or decode_header(os.pread(descriptor, HEADER_LIMIT, 0))
        if header is None or header.source not in SOURCES:
            return None
        columns = []
        for index, name in enumerate(header.keys):
            role = self._role_of(name)
            if role is not None:
                columns.append((name, role, STEP_BYTES + TIME_BYTES + VALUE_BYTES * index))
        segment = self._segments[path] = _Segment(header, tuple(columns))
        self._offsets[path] = header.length
        return segment

    def _rows(self, path: str, segment: _Segment, content: bytes) -> list[tuple[int, MetricRow]]:
        width, trust = segment.header.row_bytes, SOURCES.index(segment.header.source)
        for _, role, _ in segment.columns:
            self._trusted[role] = min(trust, self._trusted.get(role, trust))
        count = len(content) // width
        found = []
        for index in range(count):
            step, time = _ROW.unpack_from(content, index * width)
            if time == 0 and count - index <= HOLES:
                count = index
                break
            for name, role, offset in segment.columns if time > 0 else ():
                (value,) = _VALUE.unpack_from(content, index * width + offset)
                found.append((trust, MetricRow(time, step, name, role, value)))
        self._offsets[path] += count * width
        return found
