"""The end of what both sides have of a file: by it they find out whether they have the same.

A file that only grows never differs there. One that was cut, replaced, or had a hole filled does; a power cut
takes bytes from the end, too.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

TAIL = 4096
"""Bytes before an offset that are compared."""
HALF = TAIL // 2


class Have(NamedTuple):
    """Part of a file that the controller already has."""

    size: int
    older: str = ""
    """Digest of the bytes from `TAIL` to `HALF` before the end."""
    newer: str = ""
    """Digest of the last `HALF` bytes."""
    whole: str = ""
    """Digest of all of a file that is replaced whole."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Have:
        """From a frame's head. Raises ValueError where it is none."""
        size, texts = value.get("size"), [value.get(name, "") for name in cls._fields[1:]]
        if not isinstance(size, int) or size < 0 or not all(isinstance(text, str) for text in texts):
            raise ValueError("what the other end has of a file is no size and digests")
        return cls(size, *texts)


def digest(data: bytes) -> str:
    """A short digest, against accidents."""
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def tail_of(descriptor: int, end: int) -> bytes:
    """The bytes of a file before `end`, at most `TAIL`."""
    return os.pread(descriptor, min(TAIL, end), max(0, end - TAIL))


def have(descriptor: int, size: int) -> Have:
    """Return what exists of a growing file, up to `size`."""
    tail = tail_of(descriptor, size)
    return Have(size, digest(tail[:-HALF]), digest(tail[-HALF:]))


def agreed(descriptor: int, theirs: Have, size: int) -> bytes | None:
    """The bytes before the end of what both ends have of a file of `size` bytes; None where they differ.

    What is returned ends at `theirs.size`, or `HALF` bytes before it.
    """
    if theirs.size > size:
        return None
    tail = tail_of(descriptor, theirs.size)
    if digest(tail[:-HALF]) != theirs.older:
        return None
    return tail if digest(tail[-HALF:]) == theirs.newer else tail[:-HALF]


def first_difference(one: bytes, other: bytes) -> int:
    """Where two tails of one offset differ first; the shorter one's length where they do not."""
    if one == other[: len(one)]:
        return len(one)
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
