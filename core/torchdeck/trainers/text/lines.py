"""Lines from the bytes of a growing log. Standard library, Python 3.10."""

from __future__ import annotations

import re
from collections.abc import Iterator

UNENDED_LIMIT = 64 * 1024
"""Bytes without a line end that are taken for a line, so that a reader always makes progress."""

_END = re.compile(rb"[\r\n]")


def split_lines(chunk: bytes) -> Iterator[tuple[str, int]]:
    """Split `chunk` into its ended lines; a carriage return ends a line too, as progress bars overwrite
    themselves.

    Args:
        chunk: bytes from where the last call stopped.

    Yields:
        A line without its end (undecodable bytes replaced, empty lines left out), and the number of bytes of
        `chunk` up to its end. Continue reading after the last one; if there is none, once there is more data.
    """
    start = 0
    for match in _END.finditer(chunk):
        if match.start() > start:
            yield chunk[start : match.start()].decode("utf-8", "replace"), match.end()
        start = match.end()
    if len(chunk) - start >= UNENDED_LIMIT:
        yield chunk[start:].decode("utf-8", "replace"), len(chunk)
