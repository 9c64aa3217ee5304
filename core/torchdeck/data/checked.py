"""Validation of whole numbers from outside."""

from __future__ import annotations

import operator
from typing import Any

from torchdeck.contract.arguments.errors import ArgumentError


def as_whole(value: Any) -> int | None:
    """Return `value` as an int; None if it is not one (numpy's integers are; True and 1.0 are not)."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    try:
        return operator.index(value)
    except TypeError:  # an array of several numbers
        return None


def whole_number(name: str, value: Any, least: int, most: int | None = None, *, rule: str = "") -> int:
    """Return `value` as an int from `least` to `most`.

    Args:
        name: its name, for the message.
        value: an int, or an equivalent (numpy's integers are; True and 1.0 are not).
        least: minimum.
        most: maximum, if there is one.
        rule: origin of the maximum ("world_size - 1"), for the message.

    Raises:
        ArgumentError: it is not an int, or out of range; the message gives the rule.
    """
    upper = "" if most is None else f" to {most}" + (f" ({rule})" if rule else "")
    right = f"expected a whole number from {least}{upper}"
    number = as_whole(value)
    if number is None:
        raise ArgumentError(f"{name} is {value!r}", fix=right)
    if number < least or (most is not None and number > most):
        raise ArgumentError(f"{name} is {number}", fix=right)
    return number


def checked_rank(rank: Any, world_size: Any) -> int:
    """Return `rank` as an int from 0 to world_size - 1.

    Raises:
        ValueError: world_size is less than 1, or there is no such rank.
    """
    world_size = whole_number("world_size", world_size, 1)
    return whole_number("rank", rank, 0, world_size - 1, rule="world_size - 1")
