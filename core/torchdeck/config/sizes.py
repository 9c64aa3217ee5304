"""Sizes in bytes as people write them: 512MiB, 2GB, 1.5 GiB."""

from __future__ import annotations

import re
from typing import Any

_UNITS = {
    "": 1, "B": 1,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([a-zA-Z]{0,3})", re.ASCII)

SIZE_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": r"^[0-9.]+\s*([kKmMgGtT]?[iI]?[bB])?$"},
    ]
}
"""What JSON schema says of such a value."""


def parse_size(value: Any) -> Any:
    """Bytes of a text such as "512MiB"; anything that is not text passes through.

    Units: B, KB MB GB TB (powers of 1000), KiB MiB GiB TiB (powers of 1024), in either case.

    Raises:
        ValueError: the text is no size.
    """
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value.strip())
    if match is None or match.group(2).upper() not in _UNITS:
        raise ValueError(f"{value!r} is not a size")
    return int(float(match.group(1)) * _UNITS[match.group(2).upper()])
