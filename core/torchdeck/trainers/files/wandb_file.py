"""Reader of wandb's offline file, run-ID.wandb: LevelDB's log format, each record a message; history alone.

A block has 32 KiB. A record has a checksum, a length, and a type: whole, first, middle or last part.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from torchdeck.contract.bounded_json import JsonError, parse_json
from torchdeck.trainers.files.crc32c import masked
from torchdeck.trainers.files.growing import FileReader, GrowingFile
from torchdeck.trainers.files.json_lines import number, numbers, time_of, whole
from torchdeck.trainers.files.protobuf import WireError, fields, signed, text
from torchdeck.trainers.reading import Reading

RECORD_LIMIT = 1024 * 1024
"""Longest record that is parsed; in parts it may be longer than a block."""
_FILE_HEADER = b":W&B"
_FILE_HEADER_BYTES = 7
_BLOCK = 32 * 1024
_HEADER = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_HISTORY = 2
"""Number of `history` in Record."""
_STEPS = ("train/global_step", "trainer/global_step", "global_step")
"""Metrics that are the step: `_step` only counts calls for those who log one of these."""


class WandbFile(FileReader):
    """Follows one offline run. One that is damaged has no more readings after the damage."""

    def __init__(self, path: Path, since: float = 0.0) -> None:
        """Create a reader.

        Args:
            path: the file.
            since: unix seconds at which the run began; rows before are another run's.
        """
        super().__init__(path)
        self._file = GrowingFile(path)
        self._since = since
        self._parts = b""
        self._damaged = False

    def read(self) -> list[Reading]:
        if self._damaged:
            return []
        piece, begin, at = self._file.piece(), self._file.offset, 0
        if piece and begin == 0:
            if len(piece) < _FILE_HEADER_BYTES:
                return []
            self._damaged = not piece.startswith(_FILE_HEADER)
            at = _FILE_HEADER_BYTES
        found: list[Reading] = []
        while not self._damaged and at < len(piece):
            padding = _BLOCK - (begin + at) % _BLOCK
            if padding < _HEADER.size:
                at += padding
                continue
            end = self._record(piece, at, found)
            if end is None:
                break
            at = end
        at = min(at, len(piece))
        self._file.offset = begin + at
        self.more = at > 0 and not self._damaged and self._file.behind
        return found

    def _record(self, piece: bytes, at: int, found: list[Reading]) -> int | None:
        """Take the record at `at`; return where it ends, None if it is not complete."""
        if len(piece) - at < _HEADER.size:
            return None
        checksum, length, kind = _HEADER.unpack_from(piece, at)
        end = int(at + _HEADER.size + length)
        if end > len(piece):
            return None
        body = piece[at + _HEADER.size : end]
        covered = bytes([kind]) + body
        if not _WHOLE <= kind <= _LAST or checksum not in {zlib.crc32(covered), masked(covered)}:
            self._damaged = True
            return None
        if kind in {_WHOLE, _FIRST}:
            self._parts = b""
        if len(self._parts) + length <= RECORD_LIMIT:
            self._parts += body
        if kind in {_WHOLE, _LAST}:
            reading = history(self._parts)
            self._parts = b""
            if reading is not None and (reading.time is None or reading.time >= self._since):
                found.append(reading)
        return end


def history(record: bytes) -> Reading | None:
    """Return the row of a history record; None for any other record, or a damaged one."""
    try:
        row = next((value for number, value in fields(record) if number == _HISTORY), None)
        return _row(row) if isinstance(row, bytes) else None
    except WireError:
        return None


def _row(message: bytes) -> Reading | None:
    """HistoryRecord: item = 1, step = 2 (num = 1)."""
    items, step = {}, None
    for field, value in fields(message):
        if field == 1 and isinstance(value, bytes):
            name, content = _item(value)
            if name:
                items[name] = content
        elif field == 2 and isinstance(value, bytes):
            step = next((signed(number) for inner, number in fields(value) if inner == 1), 0)
    found = dict(numbers(items))
    own = next((whole(found[name]) for name in _STEPS if name in found), None)
    epoch = number(found.get("epoch", found.get("train/epoch")))
    values = {name: value for name, value in found.items() if not name.startswith("_") and name not in _STEPS}
    step = own if own is not None else whole(found.get("_step", step))
    return Reading(values, step, epoch=epoch, time=time_of(items)) if values else None


def _item(message: bytes) -> tuple[str, object]:
    """HistoryItem: key = 1, nested_key = 2, value_json = 16."""
    names, content = [], b""
    for field, value in fields(message):
        if field in {1, 2}:
            names.append(text(value))
        elif field == 16 and isinstance(value, bytes):
            content = value
    try:
        return "/".join(names), parse_json(content, limit=4096, python_numbers=True)
    except JsonError:
        return "", None
