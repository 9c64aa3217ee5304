"""Numbers to pixels: axis ranges that change in steps, and cached fonts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontMetricsF

from torchdeck_app.runs.plots.exchange import Array
from torchdeck_app.runs.plots.units import Unit, tick_step
from torchdeck_app.theme.fonts import Type, font


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


# Cached fonts and metrics of plots: a repaint uses them a hundred times.

LEFT_MIDDLE = int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft)
RIGHT_MIDDLE = int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight)
CENTRE = int(Qt.AlignmentFlag.AlignCenter)


@cache
def plot_font(kind: Type) -> QFont:
    """Return the font for a text of `kind`."""
    return font(kind)


@cache
def plot_metrics(kind: Type) -> QFontMetricsF:
    """Return the font metrics for texts of `kind`."""
    return QFontMetricsF(font(kind))


@lru_cache(maxsize=4096)
def plot_width(kind: Type, text: str) -> float:
    """Return the width in pixels of a text of `kind`."""
    return plot_metrics(kind).horizontalAdvance(text)


# Axis ranges that change in steps, not with each point.

_ENDS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_LEAST_USE = 0.4
"""Fraction of a range that its content must fill for the range to stay."""


def stepped_end(start: float, end: float) -> float:
    """Return a rounded end beyond `end`; it stays the same until `end` reaches it."""
    span = end - start
    if not span > 0:
        return start + 1.0
    decade = 10.0 ** math.floor(math.log10(span))
    return start + next((step * decade for step in _ENDS if step * decade >= span * (1 - 1e-12)), 10 * decade)


def stepped_range(
    low: float, high: float, before: tuple[float, float] | None, unit: Unit = "", most: int = 4
) -> tuple[float, float]:
    """Return a range of whole tick steps around `low` to `high`; `before` as long as it fits."""
    if before is not None:
        span = before[1] - before[0]
        if before[0] <= low and high <= before[1] and high - low >= _LEAST_USE * span:
            return before
    if low == high:
        pad = abs(low) * 0.1 or 1.0
        low, high = (0.0 if 0 <= low - pad < pad else low - pad), high + pad
    if 0 < low < 0.35 * high:
        low = 0.0
    if unit == "%" and low >= 0 and high <= 100:
        return 0.0, 100.0
    step = tick_step(high - low, most, unit, max(abs(low), abs(high)))
    found = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    return found if found[1] > found[0] else (found[0], found[0] + step)


def stepped_log_range(low: float, high: float, before: tuple[float, float] | None) -> tuple[float, float]:
    """Return a range between numbers 1, 2 or 5 × 10^n around positive `low` to `high`."""
    if before is not None and before[0] <= low and high <= before[1]:
        used = math.log(high / low) if high > low else 0.0
        if used >= _LEAST_USE * math.log(before[1] / before[0]):
            return before
    found = _at_most(low), _at_least(high)
    return found if found[1] > found[0] else (found[0] / 2, found[1] * 2)


def _at_most(value: float) -> float:
    decade = 10.0 ** math.floor(math.log10(value))
    return next(step * decade for step in (5.0, 2.0, 1.0, 0.5) if step * decade <= value * (1 + 1e-9))


def _at_least(value: float) -> float:
    decade = 10.0 ** math.floor(math.log10(value))
    return next(step * decade for step in (1.0, 2.0, 5.0, 10.0) if step * decade >= value * (1 - 1e-9))
