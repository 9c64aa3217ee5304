"""Equality of a key's values."""

from __future__ import annotations

from typing import Any

from torchdeck.config.keys import Key
from torchdeck.config.values.sizes import parse_rate, parse_size


def plain(key: Key, value: Any) -> Any:
    """Return a size in bytes, as in defaults."""
    if "size" not in key.types:
        return value
    try:
        return parse_rate(value) if key.unit == "bytes/s" else parse_size(value)
    except ValueError:
        return value


def same_value(one: Any, other: Any) -> bool:
    """Return whether two file values are equal: true is not 1, a tuple is a list, 1 is 1.0."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same_value, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
