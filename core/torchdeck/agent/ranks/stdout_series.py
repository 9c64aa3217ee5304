"""Numbers that a script prints, followed through its stdout.log and written as metrics, each line once."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from torchdeck.contract.layout import RankLayout
from torchdeck.contract.metrics.segment_format import (
    SEGMENT_SUFFIX,
    STEP_BYTES,
    TIME_BYTES,
    VALUE_BYTES,
    SegmentError,
    decode_header,
)
from torchdeck.telemetry.stdout_lines import UNENDED_LIMIT, split_lines
from torchdeck.telemetry.user_patterns import LineParser
from torchdeck.telemetry.writer import MetricsWriter

OFFSET_KEY = "_offset"
"""Hidden column: byte of stdout.log after the line a row came from, so that the next agent continues there.
"""
CHUNK = 2 * UNENDED_LIMIT
"""Bytes read at a time; more than a line may have."""
HEADER_BYTES = 1 << 20
"""Longest header that is looked at; ours name a handful of metrics."""
HOLES = 64
"""Rows at the end that a power cut may have left empty."""
KEPT = 64 * 1024
"""Bytes at the end of a log that are still parsed after lines were left out."""


class StdoutSeries:
    """One rank's stdout."""

    def __init__(self, rank: RankLayout, patterns: Sequence[str]) -> None:
        self._path = rank.stdout
        self._parser = LineParser(patterns)
        self._writer = MetricsWriter(rank.metrics, source="stdout")
        self._offset, self._last_step = written_position(rank.metrics)

    def follow(self, until: float) -> bool:
        """Parse what was printed since the last call; whether ended lines are left at `until`.

        Args:
            until: monotonic seconds; the line that is being parsed then is the last one.
        """
        if self._length() <= self._offset:
            return False
        while self._read_chunk(until):
            if monotonic() >= until:
                return self._length() - self._offset >= UNENDED_LIMIT or self._has_line()
        return False

    def skip(self) -> bool:
        """Leave out all but the last lines; whether there were more."""
        target = self._length() - KEPT
        if target <= self._offset:
            return False
        self._offset = target
        chunk = self._chunk()
        # what is parsed next begins with a whole line
        ends = [at for at in (chunk.find(b"\n"), chunk.find(b"\r")) if at >= 0]
        self._offset += min(ends, default=-1) + 1
        return True

    def _length(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def _has_line(self) -> bool:
        chunk = self._chunk()
        return b"\n" in chunk or b"\r" in chunk

    def _chunk(self) -> bytes:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.pread(descriptor, CHUNK, self._offset)
        finally:
            os.close(descriptor)

    def _read_chunk(self, until: float) -> bool:
        used, chunk = 0, self._chunk()
        for line, used in split_lines(chunk):
            reading = self._parser.parse(line)
            if reading is not None:
                step, metrics = reading
                if step is None and self._last_step is not None:
                    step = (
                        self._last_step + 1
                    )  # the writer counts on from there; it did not see the last agent's
                self._last_step = None
                self._writer.log({**metrics, OFFSET_KEY: self._offset + used}, step)
            if monotonic() >= until:
                break
        if used == 0 and len(chunk) == CHUNK:  # nothing but empty lines
            used = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
        self._offset += used
        return used > 0


def written_position(folder: Path) -> tuple[int, int | None]:
    """(offset, step) of the furthest row from stdout in `folder`; (0, None) when there is none."""
    rows = [row for path in folder.glob(f"*{SEGMENT_SUFFIX}") if (row := _last_row(path)) is not None]
    return max(rows, default=(0, None))


def _last_row(path: Path) -> tuple[int, int] | None:
    try:
        with path.open("rb") as file:
            header = decode_header(file.read(HEADER_BYTES))
            if header is None or header.source != "stdout" or OFFSET_KEY not in header.keys:
                return None
            rows = (path.stat().st_size - header.length) // header.row_bytes
            column = STEP_BYTES + TIME_BYTES + VALUE_BYTES * header.keys.index(OFFSET_KEY)
            for row in range(rows - 1, max(-1, rows - HOLES), -1):
                file.seek(header.length + row * header.row_bytes)
                content = file.read(header.row_bytes)
                (offset,) = struct.unpack_from("<d", content, column)
                if offset > 0:
                    return int(offset), struct.unpack_from("<q", content)[0]
    except (OSError, SegmentError, struct.error):
        return None
    return None
