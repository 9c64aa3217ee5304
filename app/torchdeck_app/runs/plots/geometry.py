"""Numbers to pixels, and cached fonts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QPainter, QPixmap, QRegion

from torchdeck.runs.plots.exchange import Array
from torchdeck_app.theme.fonts import Type, font

LEFT, RIGHT, TOP, BOTTOM = 72, 16, 32, 24
"""Margins around the curves in pixels; the same for all plots, so that they line up."""


MOST_EXPONENT = 300
"""Greatest exponent on a logarithmic axis; a float ends at 308."""


def positions(ends: tuple[float, float], *, log: bool) -> tuple[float, float]:
    """Return the positions of numbers in a view: themselves, or their exponents of 10."""
    return (math.log10(ends[0]), math.log10(ends[1])) if log else ends


def numbers(ends: Sequence[float], *, log: bool) -> tuple[float, float]:
    """Return the numbers at the ends of a view; exponents beyond `MOST_EXPONENT` are cut."""
    low, high = float(ends[0]), float(ends[1])
    if not log:
        return low, high
    low, high = (max(-MOST_EXPONENT, min(end, MOST_EXPONENT)) for end in (low, high))
    return 10.0**low, 10.0**high


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

    @property
    def _ends(self) -> tuple[float, float]:
        return (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)


@dataclass(frozen=True)
class Area:
    """Area of the curves from its own top left corner, and what it shows of the data."""

    across: Scale
    up: Scale

    @property
    def rect(self) -> QRectF:
        """Return the area in pixels."""
        return QRectF(0, 0, self.across.end, self.up.start)


@dataclass
class Shared:
    """Pictures and state shared by the items of one view."""

    axes: dict[Any, QPixmap] = field(default_factory=dict)
    """Painted axes; plots of equal width have the same bottom axis."""
    exposed: QRegion = field(default_factory=QRegion)
    """Part of the view that is being painted. Qt gives items the bounds of all parts together."""

    def copy(self, painter: QPainter, pixmap: QPixmap, bounds: QRectF) -> None:
        """Copy the exposed part of an item's picture, at whole pixels, so that Qt does not interpolate.

        Args:
            painter: the item's.
            pixmap: its picture.
            bounds: place of the picture in the item.
        """
        ratio = pixmap.devicePixelRatio()
        corner = painter.worldTransform().map(
            bounds.topLeft()
        )  # deviceTransform() is of the window, not of the view
        left, top = round(corner.x() * ratio) / ratio, round(corner.y() * ratio) / ratio
        place = QRectF(left, top, bounds.width(), bounds.height())
        seen = QRectF((self.exposed & place.toAlignedRect()).boundingRect()) & place
        if not seen.isEmpty():
            source = QRectF((seen.topLeft() - place.topLeft()) * ratio, seen.size() * ratio)
            shift = bounds.topLeft() - corner
            painter.drawPixmap(seen.translated(shift), pixmap, source)


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
