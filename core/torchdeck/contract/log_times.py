"""Times of a rank's output: the lengths of its two logs, once a second while they grow.

A file is rows of `ROW`, little endian: unix time f8 | bytes of stdout.log u8 | bytes of stderr.log u8. All
output below a row's length was printed at that time or before. A torn last row is not a row yet. Standard
library.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

ROW = struct.Struct("<dQQ")


class LogLengths(NamedTuple):
    """One row."""

    time: float
    stdout: int
    stderr: int


def whole_rows(content: bytes) -> list[LogLengths]:
    """Return the rows in `content`, which begins with one."""
    end = len(content) - len(content) % ROW.size
    return [LogLengths(*row) for row in ROW.iter_unpack(content[:end])]
