"""Frames of a link: a JSON head and bytes, both with their length before them.

A frame is two unsigned 32-bit numbers in network order, the bytes of head and body, then the two. Both ends
use this.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from torchdeck.contract.bounded_json import JsonError, parse_json_object
from torchdeck.contract.byte_size import size

PROTOCOL = 2
"""Version of the frames' semantics; a node sends its own in its first frame. 2: `hold` keeps levels back."""
HEAD_LIMIT = 64 * 1024
"""Most bytes of a head: a path and a few numbers."""
BODY_LIMIT = 4 * 1024 * 1024
_LENGTHS = struct.Struct("!II")
_ENCODER = json.JSONEncoder(separators=(",", ":"))


class FrameError(ValueError):
    """The peer sent an invalid frame; the stream cannot be read any further."""


class Frame(NamedTuple):
    """One message."""

    head: Mapping[str, Any]
    """`k` is its kind."""
    body: bytes = b""

    @property
    def kind(self) -> str:
        kind = self.head.get("k")
        return kind if isinstance(kind, str) else ""

    def text(self, name: str) -> str:
        """Return the text `name` of the head. Raises FrameError if it is none."""
        value = self.head.get(name)
        if not isinstance(value, str):
            raise FrameError(f"a frame {self.kind!r} has no text {name!r}")
        return value

    def number(self, name: str) -> int:
        """Return the whole number `name` of the head, 0 or more. Raises FrameError if it is none."""
        value = self.head.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise FrameError(f"a frame {self.kind!r} has no number {name!r}")
        return value

    def time(self, name: str) -> float:
        """Return the seconds `name` of the head. Raises FrameError if they are none."""
        value = self.head.get(name)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < 1e15:
            raise FrameError(f"a frame {self.kind!r} has no time {name!r}")
        return float(value)


def encode(kind: str, body: bytes = b"", /, **fields: Any) -> bytes:
    """Return the bytes of a frame.

    Raises:
        FrameError: it is longer than the peer accepts.
    """
    head = _ENCODER.encode({"k": kind, **fields}).encode("ascii")
    if len(head) > HEAD_LIMIT or len(body) > BODY_LIMIT:
        raise FrameError(
            f"a frame {kind!r} of {size(len(head))} and {size(len(body))} is too long: "
            f"{size(HEAD_LIMIT)} and {size(BODY_LIMIT)} are the most"
        )
    return b"".join((_LENGTHS.pack(len(head), len(body)), head, body))


class FrameReader:
    """Splits a stream of bytes into frames, however it arrives."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that `data` completes.

        Raises:
            FrameError: the data is no frame.
        """
        self._held += data
        begun = 0
        try:
            while (end := self._end(begun)) is not None:
                middle = begun + _LENGTHS.size + _LENGTHS.unpack_from(self._held, begun)[0]
                head = _head(bytes(self._held[begun + _LENGTHS.size : middle]))
                body = bytes(memoryview(self._held)[middle:end])
                begun = end
                yield Frame(head, body)
        finally:
            del self._held[:begun]

    def _end(self, begun: int) -> int | None:
        """Return where the frame at `begun` ends; None while it is incomplete."""
        if len(self._held) - begun < _LENGTHS.size:
            return None
        head, body = _LENGTHS.unpack_from(self._held, begun)
        if head > HEAD_LIMIT or body > BODY_LIMIT:
            raise FrameError(f"what should be a frame says it has {size(head)} and {size(body)}")
        end: int = begun + _LENGTHS.size + head + body
        return end if end <= len(self._held) else None


def _head(text: bytes) -> Mapping[str, Any]:
    try:
        return parse_json_object(text, limit=HEAD_LIMIT)
    except JsonError as error:
        raise FrameError(f"what should be a frame's head is none ({error}): {text[:80]!r}") from error
