"""Rows of one rank out of its program's files: each step of a metric once, from one file."""

from __future__ import annotations

import dataclasses
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.metrics.segment_format import (
    HEADER_LIMIT,
    NAME_LIMIT,
    SEGMENT_SUFFIX,
    STEP_BYTES,
    TIME_BYTES,
    VALUE_BYTES,
    SegmentError,
    decode_header,
)
from torchdeck.telemetry.writer import MetricsWriter
from torchdeck.trainers.files.metric_file_search import Found
from torchdeck.trainers.reading import Reading

SOURCE = "file"
MOST_NAMES = 4096
"""Metrics of one rank."""
_STEP = struct.Struct("<q")
_VALUE = struct.Struct("<d")


class _Place(NamedTuple):
    """Where one file is."""

    x: int = -1
    """X value of its last row."""
    epoch: float | None = None
    base: int = 0
    """Added to its steps: those of earlier epochs, if it counts from the beginning in each."""

    def begins_epoch(self, reading: Reading) -> bool:
        """Return whether the steps of a reading begin again with its epoch."""
        if reading.step is None or reading.epoch is None or self.epoch is None:
            return False
        return reading.step < self.x - self.base and reading.epoch > self.epoch


class FileRows:
    """Writes the rows. An agent that takes over continues after the last one of each metric."""

    def __init__(self, folder: Path) -> None:
        """Create it.

        Args:
            folder: of the rank's segments.
        """
        self._writer = MetricsWriter(folder, source=SOURCE)
        self._before = written_steps(folder)
        self._owners: dict[str, str] = {}
        """Metric → its file, or kind of files if each repeats the others' rows."""
        self._last: dict[str, int] = {}
        self._places: dict[Path, _Place] = {}

    def write(self, reading: Reading, found: Found) -> Reading:
        """Write a reading, without what has been written; return it with a step that rises over epochs."""
        source = str(found.path) if not found.kind.repeats else found.kind.origin
        reading, step, values = self.row(reading, found)
        new = {}
        for name, value in values.items():
            if not name or len(name) > NAME_LIMIT or step <= self._before.get(name, -1):
                continue
            if len(self._owners) >= MOST_NAMES and name not in self._owners:
                continue
            if self._owners.setdefault(name, source) != source:
                continue
            last = self._last.get(name)
            if last is not None and (step == last or (found.kind.repeats and step < last)):
                continue
            self._last[name] = step
            new[name] = value
        if new:
            self._writer.log(new, step, at=reading.time)
        return reading

    def row(self, reading: Reading, found: Found) -> tuple[Reading, int, dict[str, float]]:
        """Return a reading with a step that rises over epochs, the step of its row, and the row's values."""
        place = self._places.get(found.path, _Place())
        if not found.kind.repeats and place.begins_epoch(reading):
            place = place._replace(base=place.x + (0 if reading.step else 1))
        if reading.step is None:
            step = max(place.x + 1, int(reading.epoch or 0))
        else:
            step = place.base + reading.step
        if reading.step is not None:
            reading = dataclasses.replace(reading, step=step)
        if reading.values:
            epoch = place.epoch if reading.epoch is None else reading.epoch
            self._places[found.path] = place._replace(x=step, epoch=epoch)
        values = dict(reading.values)
        if reading.epoch is not None and values:
            values.setdefault("epoch", reading.epoch)
        return reading, step, values

    def close(self) -> None:
        """Close the segments."""
        self._writer.close()


def repeats_written(folder: Path, readings: Iterable[tuple[Found, Reading]]) -> bool:
    """Return whether the last row of each metric that was written is still among the readings of its files.

    Args:
        folder: of the rank's segments.
        readings: all of them, each with its file.
    """
    rows, missing = FileRows(folder), _last_rows(folder)
    for found, reading in readings:
        _, step, values = rows.row(reading, found)
        for name, value in values.items():
            if name in missing and missing[name] == (step, _VALUE.pack(value)):
                del missing[name]
        if not missing:
            return True
    return not missing


def written_steps(folder: Path) -> dict[str, int]:
    """Return the last step of each metric that was written from files."""
    return {name: step for name, (step, _) in _last_rows(folder).items()}


def _last_rows(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return step and value of the last row of each metric that was written from files."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in folder.glob(f"*{SEGMENT_SUFFIX}"):
        try:
            with path.open("rb") as file:
                header = decode_header(file.read(min(HEADER_LIMIT, 1 << 20)))
                if header is None or header.source != SOURCE:
                    continue
                rows = (os.fstat(file.fileno()).st_size - header.length) // header.row_bytes
                if rows < 1:
                    continue
                file.seek(header.length + (rows - 1) * header.row_bytes)
                row = file.read(header.row_bytes)
                step = int(_STEP.unpack_from(row)[0])
        except (OSError, SegmentError, struct.error):
            continue
        values = row[STEP_BYTES + TIME_BYTES :]
        for column, name in enumerate(header.keys):
            value = values[column * VALUE_BYTES : (column + 1) * VALUE_BYTES]
            if step > found.get(name, (-1, b""))[0]:
                found[name] = step, value
    return found
