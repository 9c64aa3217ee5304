"""Numbers to pixels, and cached fonts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontMetricsF

from torchdeck.runs.plots.exchange import Array
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
