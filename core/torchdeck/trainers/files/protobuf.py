"""Protocol buffers' wire format, as far as records of metrics need it. Every length is checked."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Union

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
Value = Union[int, bytes]  # noqa: UP007 - evaluated here, where Python 3.10 reads it

_FIXED = {FIXED64: 8, FIXED32: 4}
_LONGEST_VARINT = 10


class WireError(ValueError):
    """The bytes are no message."""


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Yield (number, value) of each field: varints as unsigned integers, everything else as bytes.

    Raises:
        WireError: the bytes are no message.
    """
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == BYTES:
            length, at = _varint(message, at)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise WireError(f"there is no wire type {kind}")
        if length > end - at:
            raise WireError("a field is longer than its message")
        yield number, message[at : at + length]
        at += length


def signed(value: Value) -> int:
    """Return a varint as int64; 0 for bytes."""
    if isinstance(value, bytes):
        return 0
    return value - 2**64 if value >= 2**63 else value


def double(value: Value) -> float | None:
    """Return a field of 8 bytes as a double, of 4 bytes as a float; None for any other."""
    if isinstance(value, int):
        return None
    if len(value) == 8:
        return float(struct.unpack("<d", value)[0])
    return float(struct.unpack("<f", value)[0]) if len(value) == 4 else None


def text(value: Value) -> str:
    """Return a string field; empty if it is none."""
    return "" if isinstance(value, int) else value.decode("utf-8", "replace")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for position in range(_LONGEST_VARINT):
        if at + position >= len(message):
            break
        byte = message[at + position]
        value |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return value & (2**64 - 1), at + position + 1
    raise WireError("a number has no end")
