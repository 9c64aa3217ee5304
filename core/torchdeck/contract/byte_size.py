"""Sizes in messages of the runtime bundle, in units that people read."""

from __future__ import annotations


def size(count: int) -> str:
    """Format bytes: `512 bytes`, `8 MiB`, `1.252 GiB`."""
    for factor, unit in ((2**50, "PiB"), (2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= factor:
            return f"{count / factor:.4g} {unit}"
    return f"{count} bytes"
