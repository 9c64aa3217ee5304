"""Cached fonts and metrics of plots: a repaint uses them a hundred times."""

from __future__ import annotations

from functools import cache, lru_cache

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontMetricsF

from torchdeck_app.theme.fonts import Type, font

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
