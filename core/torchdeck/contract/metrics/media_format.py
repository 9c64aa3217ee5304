"""Images, texts, histograms and tables that a rank logs: a file of records that is only appended to.

    {"torchdeck_media": 1, "pid": 123, "created": 1.7e9}\n
    length of head: uint32   length of body: uint32   CRC-32 of these 8 bytes and the head: uint32
    CRC-32 of the body: uint32   head (JSON)   body                               (little endian), any number

A tail that is no whole record is a write in progress, or one that a full disk or a crash cut. Nothing follows
it: a writer that failed begins another file. The body of an image is a PNG, of a text UTF-8, of the others
JSON. Standard library, Python 3.10.
"""

from __future__ import annotations

import json
import math
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from torchdeck.contract.bounded_json import JsonError, parse_json

MEDIA_VERSION = 1
MEDIA_SUFFIX = ".media"
KINDS = ("image", "text", "histogram", "table")
NAME_LIMIT = 256
"""Longest name in characters."""
BODY_LIMIT = 4 << 20
"""Largest body in bytes."""
HEAD_LIMIT = 16 << 10
"""Largest head in bytes."""
HEADER_LIMIT = 4096
FILE_LIMIT = 256 << 20
"""Bytes of a file, after which its writer stops."""
TEXT_LIMIT = 64 << 10
"""Largest text in bytes."""
SIDE_LIMIT = 4096
"""Largest width and height of an image in pixels."""
BINS_LIMIT = 512
ROWS_LIMIT, COLUMNS_LIMIT, CELL_LIMIT = 500, 50, 1000
"""Rows and columns of a table, and characters of a cell."""
_FRAME = struct.Struct("<IIII")
_PNG = b"\x89PNG\r\n\x1a\n"
_IHDR = struct.Struct(">I4sIIBBBBB")
_LARGEST_STEP = 1 << 63
_LATEST = 1e15
"""Unix seconds beyond any clock."""


Cell = str | float | int | bool | None
"""Value in a table."""


class MediaError(ValueError):
    """A file, record or body is not what it claims to be."""


class MediaHead(NamedTuple):
    """Description of a record, without its body."""

    name: str
    kind: str
    """One of KINDS."""
    step: int
    time: float
    """Unix seconds."""
    caption: str = ""


@dataclass(frozen=True)
class MediaRecord:
    """A record in a file."""

    head: MediaHead
    body_at: int
    """Offset of the body."""
    body_size: int
    body_crc: int
    end: int
    """Offset of the next record."""


@dataclass(frozen=True)
class HistogramBody:
    """Counts between edges: `counts[i]` values lie from `edges[i]` to `edges[i + 1]`."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    left_out: int
    """Values that are not finite."""


@dataclass(frozen=True)
class TableBody:
    """Texts and numbers in rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def encode_file_header(created: float) -> bytes:
    """Return the first line of a new file of this process."""
    fields = {"torchdeck_media": MEDIA_VERSION, "pid": os.getpid(), "created": created}
    return json.dumps(fields).encode() + b"\n"


def decode_file_header(start: bytes) -> int | None:
    """Return the length of the header at the start of a file; None if it is not complete yet.

    Raises:
        MediaError: it is no such file, or of a newer Torchdeck.
    """
    end = start.find(b"\n", 0, HEADER_LIMIT)
    if end < 0:
        if len(start) >= HEADER_LIMIT or not start.startswith(b'{"torchdeck_media"'[: len(start)]):
            raise MediaError("it is no file of logged images, texts, histograms and tables")
        return None
    try:
        fields = parse_json(start[:end], limit=HEADER_LIMIT)
    except JsonError as error:
        raise MediaError(f"its first line is not JSON ({error})") from None
    version = fields.get("torchdeck_media") if isinstance(fields, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise MediaError("it is no file of logged images, texts, histograms and tables")
    if version > MEDIA_VERSION:
        raise MediaError(f"it is of a newer Torchdeck (format {version}): update Torchdeck to see it")
    return end + 1


def encode_record(head: MediaHead, body: bytes) -> bytes:
    """Return a record.

    Raises:
        MediaError: head or body are too large.
    """
    text = json.dumps(head._asdict(), ensure_ascii=False).encode("utf-8", "replace")
    if len(text) > HEAD_LIMIT or len(body) > BODY_LIMIT:
        raise MediaError(f"it has {len(body):,} bytes, at most {BODY_LIMIT:,} are logged")
    lengths = struct.pack("<II", len(text), len(body))
    return lengths + struct.pack("<II", zlib.crc32(lengths + text), zlib.crc32(body)) + text + body


FRAME_BYTES = _FRAME.size
"""Bytes before a head."""


def decode_frame(start: bytes) -> tuple[int, int] | None:
    """Return the lengths of head and body; None if `start` does not contain a whole frame.

    Raises:
        MediaError: they are out of bounds.
    """
    if len(start) < FRAME_BYTES:
        return None
    head, body, _, _ = _FRAME.unpack_from(start)
    if not 2 <= head <= HEAD_LIMIT or body > BODY_LIMIT:
        raise MediaError("a record in it is damaged")
    return head, body


def decode_record(start: bytes, at: int) -> MediaRecord:
    """Return the record whose frame and head are `start`, at offset `at` of the file.

    Raises:
        MediaError: it is damaged.
    """
    head_size, body_size, head_crc, body_crc = _FRAME.unpack_from(start)
    text = start[FRAME_BYTES : FRAME_BYTES + head_size]
    if zlib.crc32(start[:8] + text) != head_crc:
        raise MediaError("a record in it is damaged")
    try:
        head = _head(parse_json(text, limit=HEAD_LIMIT))
    except JsonError as error:
        raise MediaError(f"a record in it is damaged ({error})") from None
    body_at = at + FRAME_BYTES + head_size
    return MediaRecord(head, body_at, body_size, body_crc, body_at + body_size)


def _head(fields: Any) -> MediaHead:
    if not isinstance(fields, dict) or fields.keys() != {*MediaHead._fields}:
        raise MediaError("a record in it is not described")
    head = MediaHead(**fields)
    texts = all(isinstance(text, str) for text in (head.name, head.kind, head.caption))
    numbers = type(head.step) is int and isinstance(head.time, (int, float))
    if not texts or not numbers or head.kind not in KINDS or not 0 < len(head.name) <= NAME_LIMIT:
        raise MediaError("a record in it is not described")
    if not -_LARGEST_STEP <= head.step < _LARGEST_STEP or not abs(head.time) <= _LATEST:
        raise MediaError("a record in it has no step or time")
    return head


def check_body(record: MediaRecord, body: bytes) -> None:
    """Raise MediaError unless `body` is that of the record."""
    if len(body) != record.body_size or zlib.crc32(body) != record.body_crc:
        raise MediaError(f"{record.head.name} at step {record.head.step} is damaged")


# Bodies. Each is checked when it is logged and when it is read.


def png_size(body: bytes) -> tuple[int, int]:
    """Return width and height of a PNG, as its header says (PNG specification, 11.2.2).

    Raises:
        MediaError: it is no PNG, or too large.
    """
    if len(body) < len(_PNG) + _IHDR.size or not body.startswith(_PNG):
        raise MediaError("it is no PNG image")
    length, kind, width, height, depth, colour, _, _, _ = _IHDR.unpack_from(body, len(_PNG))
    if length != 13 or kind != b"IHDR" or depth not in (1, 2, 4, 8, 16) or colour not in (0, 2, 3, 4, 6):
        raise MediaError("it is no PNG image")
    if not (1 <= width <= SIDE_LIMIT and 1 <= height <= SIDE_LIMIT):
        raise MediaError(f"the image has {width} × {height} pixels, at most {SIDE_LIMIT} × {SIDE_LIMIT} are")
    return width, height


def text_of(body: bytes) -> str:
    """Return a text.

    Raises:
        MediaError: it is no UTF-8, or too long.
    """
    if len(body) > TEXT_LIMIT:
        raise MediaError(f"the text has {len(body):,} bytes, at most {TEXT_LIMIT:,} are shown")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise MediaError("the text is no UTF-8") from None


def histogram_of(body: bytes) -> HistogramBody:
    """Return a histogram.

    Raises:
        MediaError: it is none.
    """
    fields = _json_object(body, "histogram")
    edges, counts, left_out = fields.get("edges"), fields.get("counts"), fields.get("left_out")
    if not isinstance(edges, list) or not isinstance(counts, list) or left_out is None:
        raise MediaError("the histogram has no edges and counts")
    if len(edges) != len(counts) + 1 or not 1 <= len(counts) <= BINS_LIMIT:
        raise MediaError(f"the histogram has {len(counts)} counts and {len(edges)} edges")
    finite = all(_is_number(edge) and math.isfinite(edge) for edge in edges)
    if not finite or not all(map(_is_count, [*counts, left_out])):
        raise MediaError("the histogram has something that is no number")
    if any(low > high for low, high in pairwise(edges)):
        raise MediaError("the edges of the histogram do not ascend")
    return HistogramBody(tuple(map(float, edges)), tuple(counts), int(left_out))


def table_of(body: bytes) -> TableBody:
    """Return a table.

    Raises:
        MediaError: it is none, or too large.
    """
    fields = _json_object(body, "table")
    columns, rows = fields.get("columns"), fields.get("rows")
    if not isinstance(columns, list) or not isinstance(rows, list):
        raise MediaError("the table has no columns and rows")
    if not 1 <= len(columns) <= COLUMNS_LIMIT or len(rows) > ROWS_LIMIT:
        raise MediaError(
            f"the table has {len(rows)} rows of {len(columns)} columns, at most {ROWS_LIMIT} of "
            f"{COLUMNS_LIMIT} are shown"
        )
    if not all(isinstance(name, str) and len(name) <= CELL_LIMIT for name in columns):
        raise MediaError("a column of the table has no name")
    for row in rows:
        if not isinstance(row, list) or len(row) != len(columns) or not all(map(_is_cell, row)):
            raise MediaError("a row of the table has another length, or a value that is no text or number")
    return TableBody(tuple(columns), tuple(map(tuple, rows)))


def _json_object(body: bytes, what: str) -> Mapping[str, Any]:
    try:
        fields = parse_json(body, limit=BODY_LIMIT)
    except JsonError as error:
        raise MediaError(f"the {what} is not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise MediaError(f"the {what} is no object")
    return fields


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _is_cell(value: Any) -> bool:
    return (
        value is None
        or _is_number(value)
        or isinstance(value, bool)
        or (isinstance(value, str) and len(value) <= CELL_LIMIT)
    )
