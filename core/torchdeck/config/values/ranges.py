"""Ranges of counts, such as "2:3": the minimum and maximum of ranks or nodes that a run may continue with."""

from __future__ import annotations

import re
from typing import NamedTuple

MOST = 4096
"""Most ranks of a node, or nodes, in a range."""
RIGHT = 'the least and the most, such as "2:3"'
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
            f'"{text}" begins with more than it ends with', f'"{found.most}:{found.least}", the least first'
        )
    if found.least < 1:
        raise RangeError(f'"{text}" goes down to none', f'"1:{max(1, found.most)}", at least one')
    if found.most > MOST:
        raise RangeError(f'"{text}" goes beyond {MOST}', f"at most {MOST}")
    return found


def count_range(value: int | str) -> CountRange:
    """Return a count, or a range of counts, as a range; raises RangeError as `parse_range`."""
    return parse_range(value) if isinstance(value, str) else CountRange(value, value)
