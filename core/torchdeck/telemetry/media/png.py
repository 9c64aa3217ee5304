"""PNG without a library (W3C, Portable Network Graphics, third edition): 8 bits per channel, no filter."""

from __future__ import annotations

import struct
import zlib

_COLOUR_TYPE = {1: 0, 3: 2, 4: 6}
"""Channels → grey, RGB, RGBA."""


def encode_png(width: int, height: int, channels: int, pixels: bytes) -> bytes:
    """Return an image as a PNG.

    Args:
        width: in pixels.
        height: in pixels.
        channels: 1 (grey), 3 (RGB) or 4 (RGBA).
        pixels: height × width × channels bytes, row after row.
    """
    row = width * channels
    lines = b"".join(b"\0" + pixels[at : at + row] for at in range(0, height * row, row))
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPE[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    crc = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc)
