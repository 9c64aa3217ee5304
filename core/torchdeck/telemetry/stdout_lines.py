"""Lines out of the bytes of a growing log. Standard library, Python 3.10."""

from __future__ import annotations

import re
from collections.abc import Iterator

UNENDED_LIMIT = 64 * 1024
"""Bytes without a line end after which what is there is taken for a line, so that a reader always gets on."""

_END = re.compile(rb"[\r\n]")


def split_lines(chunk: bytes) -> Iterator[tuple[str, int]]:
    """The ended lines in `chunk`; a carriage return ends a line too, as progress bars draw over themselves.

    Args:
        chunk: bytes from where the last call stopped.

    Yields:
        A line without its end (undecodable bytes replaced, empty lines left out), and how many bytes of
        `chunk` it and all before it take. Reading goes on after the last one; with none, once there is more.
    """
    start = 0
    for match in _END.finditer(chunk):
        if match.start() > start:
            yield chunk[start : match.start()].decode("utf-8", "replace"), match.end()
        start = match.end()
    if len(chunk) - start >= UNENDED_LIMIT:
        yield chunk[start:].decode("utf-8", "replace"), len(chunk)
