"""Reader of TensorBoard event files: scalars with their step and time.

A file is a row of TFRecords, each an Event message: wall_time = 1 (double), step = 2, summary = 5; in it
values (1) with tag = 1, simple_value = 2 (float) or tensor = 8.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from torchdeck.trainers.files.crc32c import masked
from torchdeck.trainers.files.growing import FileReader, GrowingFile
from torchdeck.trainers.files.protobuf import Value, WireError, double, fields, signed, text
from torchdeck.trainers.reading import Reading

RECORD_LIMIT = 64 * 1024
"""Longest record that is parsed, shorter than a piece; pictures and histograms are longer, and left out."""
_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_FLOAT, _DOUBLE = 1, 2
"""Data types of a tensor (DT_FLOAT, DT_DOUBLE)."""
_NO_METRICS = frozenset(("hp_metric",))
"""Lightning's placeholder for a result of the hyperparameters, always -1."""


class EventFile(FileReader):
    """Follows one event file. One that is damaged has no more readings after the damage."""

    def __init__(self, path: Path, since: float = 0.0) -> None:
        """Create a reader.

        Args:
            path: the file.
            since: unix seconds at which the run began; events before are another run's.
        """
        super().__init__(path)
        self._file = GrowingFile(path)
        self._since = since
        self._damaged = False

    def read(self) -> list[Reading]:
        if self._damaged:
            return []
        piece, offset, at = self._file.piece(), self._file.offset, 0
        found: list[Reading] = []
        while (end := self._record_end(piece, at)) is not None:
            body = piece[at + _HEADER.size : end - _FOOTER.size]
            if len(body) == end - at - _HEADER.size - _FOOTER.size and len(body) <= RECORD_LIMIT:
                if masked(body) != _FOOTER.unpack_from(piece, end - _FOOTER.size)[0]:
                    self._damaged = True
                    break
                _merge(found, event(body), self._since)
            at = end
        self._file.offset = offset + at
        self.more = at > 0 and not self._damaged and self._file.behind
        return found

    def _record_end(self, piece: bytes, at: int) -> int | None:
        """Return where the record at `at` ends, possibly beyond the piece; None if it is not complete."""
        if len(piece) - at < _HEADER.size:
            return None
        length, checksum = _HEADER.unpack_from(piece, at)
        if masked(piece[at : at + 8]) != checksum:
            self._damaged = True
            return None
        end = int(at + _HEADER.size + length + _FOOTER.size)
        if end <= len(piece):
            return end
        # one that is too long to be parsed is skipped unread, once it is all there
        skipped = length > RECORD_LIMIT and self._file.offset + end <= self._file.size
        return end if skipped else None


def event(body: bytes) -> Reading | None:
    """Return the scalars of one Event; None if it has none, or is damaged."""
    time, step = None, 0
    values: dict[str, float] = {}
    try:
        for number, value in fields(body):
            if number == 1:
                time = double(value)
            elif number == 2:
                step = signed(value)
            elif number == 5 and isinstance(value, bytes):
                values.update(_scalars(value))
    except WireError:
        return None
    if not values or step < 0:
        return None
    return Reading(values, step, time=time if time is not None and 0 < time < 1e11 else None)


def _scalars(summary: bytes) -> Iterator[tuple[str, float]]:
    for number, value in fields(summary):
        if number != 1 or not isinstance(value, bytes):
            continue
        tag, found = "", None
        for inner, content in fields(value):
            if inner == 1:
                tag = text(content)
            elif inner == 2:
                found = double(content)
            elif inner == 8 and isinstance(content, bytes):
                found = _tensor(content)
        if tag and found is not None and tag not in _NO_METRICS:
            yield tag, found


def _tensor(message: bytes) -> float | None:
    """Return a TensorProto of one float or double: dtype = 1, shape = 2, content = 4, float 5, double 6."""
    kind, found = 0, None
    for number, value in fields(message):
        if number == 1:
            kind = signed(value)
        elif number in {4, 5, 6} and _is_one(value, kind):
            found = double(value)
    return found


def _is_one(value: Value, kind: int) -> bool:
    return isinstance(value, bytes) and len(value) == {_FLOAT: 4, _DOUBLE: 8}.get(kind, 0)


def _merge(found: list[Reading], reading: Reading | None, since: float) -> None:
    """Append a reading; what one step wrote in several events is one."""
    if reading is None or (reading.time is not None and reading.time < since):
        return
    last = found[-1] if found else None
    if last is not None and last.step == reading.step and not last.values.keys() & reading.values.keys():
        found[-1] = Reading({**last.values, **reading.values}, last.step, time=last.time)
    else:
        found.append(reading)
