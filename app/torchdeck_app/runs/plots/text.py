"""Fonts and alignments of plots, made once: a repaint asks for them a hundred times."""

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
    """The font for a text of `kind`."""
    return font(kind)


@cache
def plot_metrics(kind: Type) -> QFontMetricsF:
    """How wide and high its texts are."""
    return QFontMetricsF(font(kind))


@lru_cache(maxsize=4096)
def plot_width(kind: Type, text: str) -> float:
    """Pixels that a text of `kind` is wide."""
    return plot_metrics(kind).horizontalAdvance(text)
