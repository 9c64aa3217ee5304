"""Whether memory suffices."""

from __future__ import annotations

TIGHT = 0.90
"""Part of what there is, over which it is tight."""

FITS = "fits"
TIGHT_VERDICT = "tight"
DOES_NOT_FIT = "does not fit"
UNKNOWN = "unknown"


def verdict(peak: int, high: int, capacity: int | None, free: int | None = None) -> str:
    """`fits`, `tight`, `does not fit`, or `unknown` where nothing is known of the device.

    Args:
        peak: bytes expected.
        high: bytes that may come to be needed.
        capacity: bytes of the device.
        free: of them, what nobody else uses now.
    """
    known = [size for size in (capacity, free) if size is not None]
    if not known:
        return UNKNOWN
    limit = min(known)
    if peak > limit:
        return DOES_NOT_FIT
    return TIGHT_VERDICT if peak > TIGHT * limit or high > limit else FITS
