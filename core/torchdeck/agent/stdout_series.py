"""Numbers that a script prints, followed through its stdout.log and written as metrics, each line once."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from torchdeck.rundir.layout import RankLayout
from torchdeck.telemetry.segment_format import (
    SEGMENT_SUFFIX,
    STEP_BYTES,
    TIME_BYTES,
    VALUE_BYTES,
    SegmentError,
    decode_header,
)
from torchdeck.telemetry.stdout_lines import split_lines
from torchdeck.telemetry.user_patterns import LineParser
from torchdeck.telemetry.writer import MetricsWriter

OFFSET_KEY = "_offset"
"""Hidden column: byte of stdout.log after the line a row came from, so that the next agent goes on there."""
CHUNK = 1 << 20
HEADER_BYTES = 1 << 20
"""Longest header that is looked at; ours name a handful of metrics."""
HOLES = 64
"""Rows at the end that a power cut may have left empty."""
CALL_LIMIT = 4 << 20
"""Bytes read in one call, so that a script that prints without end cannot hold up the agent."""


class StdoutSeries:
    """One rank's stdout."""

    def __init__(self, rank: RankLayout, patterns: Sequence[str]) -> None:
        self._path = rank.stdout
        self._parser = LineParser(patterns)
        self._writer = MetricsWriter(rank.metrics, source="stdout")
        self._offset, self._last_step = written_position(rank.metrics)

    def follow(self) -> int:
        """Parse what was printed since the last call; how many bytes of it are still to be read."""
        try:
            size = self._path.stat().st_size
        except OSError:
            return 0
        limit = min(size, self._offset + CALL_LIMIT)
        while self._offset < limit and self._read_chunk():
            pass
        return size - self._offset

    def _read_chunk(self) -> bool:
        with self._path.open("rb") as file:
            file.seek(self._offset)
            chunk = file.read(CHUNK)
        used = 0
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
