"""Sizes in bytes and speeds in bytes/s as users write them: 512MiB, 1.5 GiB, 50GB/s, 400Gbit/s."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

_UNITS = {
    "B": 1,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([a-zA-Z]{1,3})", re.ASCII)

SIZE_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": r"^[0-9.]+\s*[kKmMgGtT]?[iI]?[bB]$"},
    ]
}
"""JSON schema of a size."""

_BITS = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([kKmMgGtT]?)(?:bits?/s|bps|b/s)", re.ASCII)
"""A lowercase b means bits."""
_BIT_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

RATE_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": r"^[0-9.]+\s*[kKmMgGtT]?(i?B/s|b/s|bits?/s|bps)$"},
    ]
}
"""JSON schema of a speed."""


def parse_size(value: Any) -> Any:
    """Parse a text such as "512MiB" to bytes; anything that is not text passes through.

    Units: B, KB MB GB TB (powers of 1000), KiB MiB GiB TiB (powers of 1024), in either case. A text needs
    one: "80" is hardly meant as bytes.

    Raises:
        ValueError: the text is no size.
    """
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value.strip())
    if match is None or match.group(2).upper() not in _UNITS:
        raise ValueError(f"{value!r} is not a size")
    return int(float(match.group(1)) * _UNITS[match.group(2).upper()])


def parse_rate(value: Any) -> Any:
    """Parse a text such as "50GB/s" or "400Gbit/s" to bytes/s; anything that is not text passes through.

    Raises:
        ValueError: the text is no speed.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    bits = _BITS.fullmatch(text)
    if bits is not None:
        return int(float(bits.group(1)) * _BIT_UNITS[bits.group(2).upper()] / 8)
    if not text.endswith("B/s"):
        raise ValueError(f"{value!r} is not a speed")
    return parse_size(text.removesuffix("/s"))


ByteSize = Annotated[int, BeforeValidator(parse_size), WithJsonSchema(SIZE_SCHEMA)]
"""Field type: bytes, or a size with a unit."""
ByteRate = Annotated[int, BeforeValidator(parse_rate), WithJsonSchema(RATE_SCHEMA)]
"""Field type: bytes/s, or a speed with a unit."""
