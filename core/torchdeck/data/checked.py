"""Whole numbers from outside, checked before use."""

from __future__ import annotations

import operator
from typing import Any


def as_whole(value: Any) -> int | None:
    """`value` as an int; None where it is none (numpy's integers are; True and 1.0 are not)."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    try:
        return operator.index(value)
    except TypeError:  # an array of several numbers
        return None


def whole_number(name: str, value: Any, least: int, most: int | None = None, *, rule: str = "") -> int:
    """`value` as an int from `least` to `most`.

    Args:
        name: what it is, for the message.
        value: an int, or what stands for one (numpy's integers do; True and 1.0 do not).
        least: least allowed.
        most: greatest allowed, if there is one.
        rule: how the greatest comes about ("world_size - 1"), for the message.

    Raises:
        ValueError: it is none, or out of range; the message says the rule.
    """
    upper = "" if most is None else f" to {most}" + (f" ({rule})" if rule else "")
    right = f"right is a whole number from {least}{upper}"
    number = as_whole(value)
    if number is None:
        raise ValueError(f"{name} is {value!r}: {right}")
    if number < least or (most is not None and number > most):
        raise ValueError(f"{name} is {number}: {right}")
    return number


def checked_rank(rank: Any, world_size: Any) -> int:
    """`rank` as an int from 0 to world_size - 1.

    Raises:
        ValueError: world_size is less than 1, or there is no such rank.
    """
    world_size = whole_number("world_size", world_size, 1)
    return whole_number("rank", rank, 0, world_size - 1, rule="world_size - 1")
