"""Reader of metrics.csv: Lightning's CSVLogger (epoch,step,NAME..., empty cells), and those of scripts."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path

from torchdeck.trainers.files.growing import LINE_LIMIT, FileReader, GrowingFile
from torchdeck.trainers.files.json_lines import EARLIEST, STEP_NAMES
from torchdeck.trainers.reading import Reading

COLUMNS = 4096
"""Most columns that are read."""
_TIMES = ("time", "timestamp", "wall_time", "created")
_EPOCH = "epoch"


class CsvFile(FileReader):
    """Follows a table with a header. Lightning writes the whole file again when a metric is added: rows that
    were read are skipped by their number.
    """

    def __init__(self, path: Path, begin: int = 0) -> None:
        """Create a reader.

        Args:
            path: the file.
            begin: its length when the run began; rows before are another run's.
        """
        super().__init__(path)
        self._begin = begin
        self._file = GrowingFile(path)
        self._header = b""
        self._names: list[str] = []
        self._rows = 0
        """Rows used or skipped, over all versions of the file."""
        self._row = 0
        """Rows of this version that have been passed."""

    def read(self) -> list[Reading]:
        self._look_for_new_header()
        piece = self._file.piece()
        if self._file.offset == 0:
            self._row, self._names, self._header = 0, [], b""
        end = piece.rfind(b"\n") + 1
        if not end and len(piece) > LINE_LIMIT:
            self._file.offset += len(piece)
        found = []
        for line in piece[:end].split(b"\n")[:-1]:
            self._file.offset += len(line) + 1
            reading = self._take(line)
            if reading is not None:
                found.append(reading)
        self.more = bool(end) and self._file.behind
        return found

    def _look_for_new_header(self) -> None:
        if not self._header:
            return
        start = GrowingFile(self.path).piece(len(self._header))
        if start and start != self._header:
            # what is in it now was written by this run
            self._file.offset = 0
            self._begin = 0
            self._header = b""

    def _take(self, line: bytes) -> Reading | None:
        cells = _cells(line)
        if not self._header:  # one that cannot be read names nothing
            self._names, self._header = cells[:COLUMNS], line + b"\n"
            return None
        self._row += 1
        if self._row <= self._rows:
            return None
        self._rows = self._row
        if self._file.offset <= self._begin:
            return None
        numbers = zip(self._names, map(_number, cells), strict=False)  # a row may be short
        return _reading({name: value for name, value in numbers if value is not None})


def _reading(values: Mapping[str, float]) -> Reading | None:
    metrics = dict(values)
    steps = [metrics.pop(name) for name in STEP_NAMES if name in metrics]
    step = next((int(value) for value in steps if math.isfinite(value) and 0 <= value < 2**62), None)
    times = [metrics.pop(name) for name in _TIMES if name in metrics]
    time = next((value for value in times if EARLIEST <= value < 1e11), None)
    epoch = metrics.pop(_EPOCH, math.nan)
    if not metrics:
        return None
    return Reading(metrics, step, None, epoch if math.isfinite(epoch) else None, time)


def _cells(line: bytes) -> list[str]:
    try:
        row = next(csv.reader([line.decode("utf-8", "replace").rstrip("\r")]), [])
    except csv.Error:
        return []
    return [cell.strip() for cell in row]


def _number(cell: str) -> float | None:
    if not cell or len(cell) > 64:
        return None
    try:
        return float(cell)
    except ValueError:
        return None
