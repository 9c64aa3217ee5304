"""Verdict on whether the memory is sufficient."""

from __future__ import annotations

TIGHT = 0.90
"""Share of the available memory above which the verdict is `tight`."""

FITS = "fits"
TIGHT_VERDICT = "tight"
DOES_NOT_FIT = "does not fit"
UNKNOWN = "unknown"


def verdict(peak: int, high: int, capacity: int | None, free: int | None = None) -> str:
    """Return `fits`, `tight`, `does not fit`, or `unknown` if nothing is known about the device.

    Args:
        peak: expected bytes.
        high: upper bound of the bytes needed.
        capacity: bytes of the device.
        free: bytes of it that no other process uses now.
    """
    known = [size for size in (capacity, free) if size is not None]
    if not known:
        return UNKNOWN
    limit = min(known)
    if peak > limit:
        return DOES_NOT_FIT
    return TIGHT_VERDICT if peak > TIGHT * limit or high > limit else FITS
