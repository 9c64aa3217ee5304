"""Conversion between numbers and pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from torchdeck_app.runs.plots.exchange import Array


@dataclass(frozen=True)
class Scale:
    """Mapping of a range of numbers to a range of pixels."""

    low: float
    high: float
    start: float
    """Pixel of `low`."""
    end: float
    log: bool = False

    def pixels(self, values: Array) -> Array:
        """Return the pixels of `values`; NaN if undefined (logarithm of a value that is not positive)."""
        if self.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                values = np.log(np.where(values > 0, values, np.nan))
        low, high = self._ends
        result: Array = self.start + (values - low) * ((self.end - self.start) / ((high - low) or 1.0))
        return result

    def pixel(self, value: float) -> float:
        """Return the pixel of one value."""
        return float(self.pixels(np.array([value]))[0])

    def value(self, pixel: float) -> float:
        """Return the number at a pixel."""
        low, high = self._ends
        found = low + (pixel - self.start) / ((self.end - self.start) or 1.0) * (high - low)
        return math.exp(found) if self.log else found

    def zoomed(self, pixel: float, factor: float) -> tuple[float, float]:
        """Return the range that shows `factor` times as much, with the number at `pixel` fixed."""
        low, high = self._ends
        at = low + (pixel - self.start) / ((self.end - self.start) or 1.0) * (high - low)
        ends = at - (at - low) * factor, at + (high - at) * factor
        return (math.exp(ends[0]), math.exp(ends[1])) if self.log else ends

    def moved(self, pixels: float) -> tuple[float, float]:
        """Return the range after moving the content right by this many pixels."""
        low, high = self._ends
        by = pixels / ((self.end - self.start) or 1.0) * (high - low)
        return (math.exp(low - by), math.exp(high - by)) if self.log else (low - by, high - by)

    @property
    def _ends(self) -> tuple[float, float]:
        return (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)


def stretches(y: Array, starts: Sequence[int] = ()) -> list[slice]:
    """Return slices of `y` between its NaN values, none of which crosses one of `starts`."""
    if len(starts):
        ends = sorted({0, *starts, len(y)})
        return [
            slice(first + part.start, first + part.stop)
            for first, last in pairwise(ends)
            for part in stretches(y[first:last])
        ]
    finite = np.isfinite(y)
    if finite.all():
        return [slice(0, len(y))] if len(y) else []
    edges = np.flatnonzero(np.diff(np.concatenate(([False], finite, [False])).astype(np.int8)))
    return [slice(int(first), int(last)) for first, last in zip(edges[0::2], edges[1::2], strict=True)]


def within(x: Array, low: float, high: float) -> slice:
    """Return the slice of ascending `x` from `low` to `high`, plus one neighbour on either side."""
    if len(x) < 2 or (x[1:] < x[:-1]).any():
        return slice(0, len(x))
    first = int(np.searchsorted(x, low, "left")) - 1
    return slice(max(first, 0), int(np.searchsorted(x, high, "right")) + 1)
