"""Rows of one rank out of its program's files: each step of a metric once, from one file."""

from __future__ import annotations

import dataclasses
import os
import struct
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.metrics.segment_format import (
    HEADER_LIMIT,
    NAME_LIMIT,
    SEGMENT_SUFFIX,
    SegmentError,
    decode_header,
)
from torchdeck.telemetry.writer import MetricsWriter
from torchdeck.trainers.files.finding import Found
from torchdeck.trainers.reading import Reading

SOURCE = "file"
MOST_NAMES = 4096
"""Metrics of one rank."""
_STEP = struct.Struct("<q")


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

    def close(self) -> None:
        """Close the segments."""
        self._writer.close()


def written_steps(folder: Path) -> dict[str, int]:
    """Return the last step of each metric that was written from files."""
    found: dict[str, int] = {}
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
                step = int(_STEP.unpack(file.read(_STEP.size))[0])
        except (OSError, SegmentError, struct.error):
            continue
        for name in header.keys:
            found[name] = max(step, found.get(name, -1))
    return found
