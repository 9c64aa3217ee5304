"""What counts as a number in a metric. Standard library: tensors are known by what they do."""

from __future__ import annotations

import struct
from typing import Any

_DOUBLE = struct.Struct("<d")
_LONG = struct.Struct("<q")


def outside_autograd(value: Any) -> Any:
    """`value`, out of autograd where it is in it: torch warns about floats of what requires grad."""
    return value.detach() if getattr(value, "requires_grad", False) else value


def as_float(value: Any) -> float:
    """`value` as a float, by the rule of the writer's fast path: a text is no number, even one that reads so.

    Raises:
        Exception: it is not one number; a foreign `__float__` may raise anything.
    """
    return float(_DOUBLE.unpack(_DOUBLE.pack(outside_autograd(value)))[0])


def as_step(value: Any) -> int:
    """`value` as a 64-bit integer, rounded towards zero.

    Raises:
        Exception: it is not one number or does not fit; a foreign `__int__` may raise anything.
    """
    if isinstance(value, (str, bytes)):
        raise TypeError("a text is no step")
    number = int(value)
    _LONG.pack(number)
    return number


def describe(value: Any) -> str:
    """A few words on a value that may be anything, calling no more of it than its shape."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"{type(value).__name__} of shape {tuple(shape)}"
    if isinstance(value, (str, bytes)):
        return f"{type(value).__name__} {value[:40]!r}"
    return type(value).__name__
