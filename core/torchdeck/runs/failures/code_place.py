"""Places in code that a line of output names."""

from __future__ import annotations

import re
from typing import NamedTuple

_LONGEST = 4096
"""Characters of a line that are searched, and of a path."""
_FRAME = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>[0-9]{1,9})')
_COLON = re.compile(
    r"(?<![\w./~+@:-])(?P<file>[\w./~+@-]*[\w-]\.\w{1,8}):(?P<line>[0-9]{1,9})(?::(?P<column>[0-9]{1,6}))?"
)


class CodePlace(NamedTuple):
    """A line of a file, as a line of output names it."""

    file: str
    """A path, which need not be absolute nor exist."""
    line: int
    """Counted from 1."""
    column: int | None = None
    """Counted from 1; None if it is not named."""


def place_in(text: str) -> CodePlace | None:
    """Return the first place that a line of output names; None if it names none.

    Known are frames of Python (`File "train.py", line 3`) and `train.py:3`, `train.py:3:7`.
    """
    text = text[:_LONGEST]
    found = _FRAME.search(text)
    column = None
    if found is None:
        found = _COLON.search(text)
        column = found["column"] if found is not None else None
    if found is None or found["file"].startswith("<") or not int(found["line"]):
        return None
    return CodePlace(found["file"], int(found["line"]), int(column) or None if column else None)
