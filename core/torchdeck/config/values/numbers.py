"""Sizes in bytes and speeds in bytes/s as users write them: 512MiB, 1.5 GiB, 50GB/s, 400Gbit/s."""

from __future__ import annotations

import re
from typing import Annotated, Any, NamedTuple

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


# Ranges of counts, such as "2:3": the minimum and maximum of ranks or nodes that a run may continue with.

MOST = 4096
"""Most ranks of a node, or nodes, in a range."""
RIGHT = 'minimum and maximum, such as "2:3"'
_RANGE = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")


class RangeError(ValueError):
    """A text is no range; `right` describes a valid one."""

    def __init__(self, wrong: str, right: str = RIGHT) -> None:
        super().__init__(wrong)
        self.right = right


class CountRange(NamedTuple):
    """Range of counts; both ends included."""

    least: int
    most: int


def parse_range(text: str) -> CountRange:
    """Parse the range in a text.

    Raises:
        RangeError: it is not a range.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        raise RangeError(f'"{text}" is not a range of counts')
    found = CountRange(int(match.group(1)), int(match.group(2)))
    if found.least > found.most:
        raise RangeError(
            f'"{text}" has a minimum above its maximum', f'"{found.most}:{found.least}", the minimum first'
        )
    if found.least < 1:
        raise RangeError(f'"{text}" allows zero ranks or nodes', f'"1:{max(1, found.most)}", at least one')
    if found.most > MOST:
        raise RangeError(f'"{text}" goes beyond {MOST}', f"at most {MOST}")
    return found


def count_range(value: int | str) -> CountRange:
    """Return a count, or a range of counts, as a range; raises RangeError as `parse_range`."""
    return parse_range(value) if isinstance(value, str) else CountRange(value, value)
