"""The metrics file: a self-describing header, then rows of fixed width.

A segment holds one table: the rows of one set of metric names, written by one incarnation of one writer.

    {"torchdeck_metrics": 1, "keys": ["loss", "lr"], "source": "log", ...}<spaces>\n   (n × 64 bytes)
    step: int64   time: float64 (unix seconds)   one float64 a key, in the order of "keys"    (little endian)
    ...

A row whose time is 0 was never written (a hole that a failed write or a power cut left). A tail shorter than
a row is a write in progress, or one that a crash cut; nothing follows it: every writer opens its own file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torchdeck.contract.bounded_json import JsonError, parse_json

SEGMENT_VERSION = 1
SEGMENT_SUFFIX = ".metrics"
TRAINER = "trainer"
"""Source of the metrics of a recipe's trainer."""
SOURCES = ("log", TRAINER, "inside", "file", "stdout", "stderr", "system")
"""Writers of segments. For one metric of one rank, the reader trusts the earlier one in this list."""

HEADER_LIMIT = 4 * 1024 * 1024
"""Longest header in bytes; a file with no header within it is not a segment."""
COLUMNS_LIMIT = 65_536
"""Most metrics in one segment."""
NAME_LIMIT = 256
"""Longest metric name in characters."""
STEP_BYTES = TIME_BYTES = VALUE_BYTES = 8
_ALIGNMENT = 64
_VERSION_FIELD = "torchdeck_metrics"
LATEST = 1e15
"""Unix seconds beyond any clock."""


class SegmentError(ValueError):
    """A file is not a metrics segment, or this version cannot read it."""


class NewerSegmentError(SegmentError):
    """A segment was written by a newer Torchdeck."""


@dataclass(frozen=True)
class SegmentHeader:
    """Self-description of a segment."""

    keys: tuple[str, ...]
    """Metric names in the order of the columns; a name that starts with `_` is not shown."""
    source: str
    pid: int
    created: float
    """Unix seconds."""
    length: int = 0
    """Bytes before the first row."""

    @property
    def row_bytes(self) -> int:
        return STEP_BYTES + TIME_BYTES + VALUE_BYTES * len(self.keys)


def encode_header(keys: Sequence[str], source: str, *, created: float) -> bytes:
    """Return the header of a new segment of this process."""
    fields = {
        _VERSION_FIELD: SEGMENT_VERSION,
        "source": source,
        "keys": list(keys),
        "pid": os.getpid(),
        "created": created,
    }
    text = json.dumps(fields).encode("ascii")
    padding = -(len(text) + 1) % _ALIGNMENT
    return text + b" " * padding + b"\n"


def decode_header(start: bytes) -> SegmentHeader | None:
    """Return the header at the start of a file; None if it is not complete yet.

    Args:
        start: the file's first bytes, up to `HEADER_LIMIT`.

    Raises:
        SegmentError: this is not a segment.
        NewerSegmentError: it is one, of a newer version.
    """
    end = start.find(b"\n", 0, HEADER_LIMIT)
    if end < 0:
        if len(start) >= HEADER_LIMIT or not start.startswith(b'{"torchdeck_'[: len(start)]):
            raise SegmentError("not a metrics segment: it does not begin with a metrics header")
        return None
    try:
        fields = parse_json(start[:end], limit=HEADER_LIMIT)
    except JsonError as error:
        raise SegmentError(f"not a metrics segment: its first line is not JSON ({error})") from error
    return _header_from(fields, end + 1)


def _header_from(fields: Any, length: int) -> SegmentHeader:
    if not isinstance(fields, dict) or not isinstance(fields.get(_VERSION_FIELD), int):
        raise SegmentError(f"not a metrics segment: its first line has no number {_VERSION_FIELD!r}")
    version = fields[_VERSION_FIELD]
    if version > SEGMENT_VERSION:
        raise NewerSegmentError(
            f"written by a newer Torchdeck (metrics format {version}, this one reads {SEGMENT_VERSION}): "
            "update Torchdeck to read it"
        )
    keys = fields.get("keys")
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) and key for key in keys):
        raise SegmentError("damaged metrics segment: its header has no list of names in 'keys'")
    if len(keys) > COLUMNS_LIMIT or max(map(len, keys)) > 4 * NAME_LIMIT:
        raise SegmentError(f"damaged metrics segment: more than {COLUMNS_LIMIT} names, or one too long")
    if len(set(keys)) != len(keys):
        raise SegmentError("damaged metrics segment: its header has a name twice")
    source, pid, created = fields.get("source"), fields.get("pid"), fields.get("created")
    if not isinstance(source, str) or not isinstance(pid, int) or not isinstance(created, (int, float)):
        raise SegmentError("damaged metrics segment: its header lacks 'source', 'pid' or 'created'")
    if not abs(created) <= LATEST:  # nor NaN
        raise SegmentError("damaged metrics segment: 'created' in its header is no time")
    return SegmentHeader(tuple(keys), source, pid, float(created), length)
