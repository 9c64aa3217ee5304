"""Colours of heat maps: viridis, whose lightness increases evenly, so that it is readable with any colour
vision.

From Smith and van der Walt, "A better default colormap for matplotlib", SciPy 2015; sixteen of its colours
are listed here, and those between are interpolated.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

_VIRIDIS = (
    "440154", "481a6c", "472f7d", "414487", "39568c", "31688e", "2a788e", "23888e",
    "1f988b", "22a884", "35b779", "54c568", "7ad151", "a5db36", "d2e21b", "fde725",
)  # fmt: skip
LEVELS = 256


@cache
def viridis() -> npt.NDArray[np.uint32]:
    """Return 0xffRRGGBB from the lowest (dark) to the highest (yellow), shape (LEVELS,)."""
    known = np.array([[int(text[at : at + 2], 16) for at in (0, 2, 4)] for text in _VIRIDIS])
    places = np.linspace(0, len(_VIRIDIS) - 1, LEVELS)
    red, green, blue = (
        np.round(np.interp(places, np.arange(len(_VIRIDIS)), known[:, channel])).astype(np.uint32)
        for channel in range(3)
    )
    colours: npt.NDArray[np.uint32] = (np.uint32(0xFF) << 24) | (red << 16) | (green << 8) | blue
    return colours


def levels(values: npt.NDArray[np.float64], low: float, high: float) -> npt.NDArray[np.intp]:
    """Return the level of each of `values` on the scale from `low` to `high`, 0 to LEVELS − 1, clamped."""
    share = (values - low) / (high - low) if high > low else np.full(values.shape, 0.5)
    places: npt.NDArray[np.intp] = np.clip(np.round(share * (LEVELS - 1)), 0, LEVELS - 1).astype(np.intp)
    return places
