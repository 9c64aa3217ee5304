"""A plot as pixels, drawn again where something has changed."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtGui import QPainter, QPixmap

from torchdeck_app.runs.plots.exchange import PlotData
from torchdeck_app.runs.plots.overlay import paint_state
from torchdeck_app.runs.plots.painting import Frame, paint_axes, paint_data
from torchdeck_app.theme.theme import Theme


class PlotPicture:
    """Everything of a plot but what follows the pointer."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._pixels: QPixmap | None = None
        self._axes: tuple[tuple[Frame, str, str, float], QPixmap] | None = None
        self._is_stale = True

    def spoil(self) -> None:
        """What is drawn has changed."""
        self._is_stale = True

    def drawn(self, size: QSize, ratio: float, frame: Frame, data: PlotData, title: str) -> QPixmap:
        """The picture.

        Args:
            size: in logical pixels.
            ratio: pixels of the screen a logical one.
            frame: where it is drawn.
            data: what is drawn.
            title: of the plot.
        """
        pixels = QSize(round(size.width() * ratio), round(size.height() * ratio))
        if self._pixels is None or self._pixels.size() != pixels:
            self._pixels = QPixmap(pixels)
            self._pixels.setDevicePixelRatio(ratio)
            self._is_stale = True
        if self._is_stale:
            self._is_stale = False
            painter = QPainter(self._pixels)
            painter.drawPixmap(0, 0, self._drawn_axes(pixels, ratio, frame, title))
            paint_data(painter, frame, data, self._theme.palette)
            paint_state(painter, frame, data, title, self._theme.palette)
            painter.end()
        return self._pixels

    def _drawn_axes(self, pixels: QSize, ratio: float, frame: Frame, title: str) -> QPixmap:
        """Ground, title and axes; axes move in steps, so that they are seldom drawn."""
        key = (frame, title, self._theme.palette.scheme, ratio)
        if self._axes is None or self._axes[0] != key:
            made = QPixmap(pixels)
            made.setDevicePixelRatio(ratio)
            painter = QPainter(made)
            paint_axes(painter, frame, title, self._theme.palette)
            painter.end()
            self._axes = (key, made)
        return self._axes[1]
