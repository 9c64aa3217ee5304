"""Ranges of counts, such as "2:3": how many ranks or nodes a run may go on with, at least and at most."""

from __future__ import annotations

import re
from typing import NamedTuple

MOST = 4096
"""Ranks of a node, or nodes, that a range may name."""
RIGHT = 'the least and the most, such as "2:3"'
_RANGE = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")


class RangeError(ValueError):
    """A text is no range; `right` says what would be."""

    def __init__(self, wrong: str, right: str = RIGHT) -> None:
        super().__init__(wrong)
        self.right = right


class CountRange(NamedTuple):
    """Both ends included."""

    least: int
    most: int


def parse_range(text: str) -> CountRange:
    """The range that a text names.

    Raises:
        RangeError: it names none.
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
    """A count, or a range of counts, as a range; raises RangeError as `parse_range`."""
    return parse_range(value) if isinstance(value, str) else CountRange(value, value)
