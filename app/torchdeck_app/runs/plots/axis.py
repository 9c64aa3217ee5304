"""Axis with ticks in the units of metrics, kept as a picture."""

from __future__ import annotations

import pyqtgraph
from PySide6.QtCore import QLineF, QPointF, QRectF
from PySide6.QtGui import QColor, QPainter, QPixmap

from torchdeck.runs.plots.units import Unit, log_ticks, tick_labels, tick_step, tick_values
from torchdeck.runs.plots.x_axis import XKind, x_ticks
from torchdeck_app.runs.plots.geometry import (
    BOTTOM,
    LEFT,
    RIGHT,
    RIGHT_MIDDLE,
    Scale,
    Shared,
    plot_font,
    plot_metrics,
)
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.palette import Palette

_OVER = 15.0
"""Pixels by which the first and last label may reach over the ends of their axis."""
_MOST_PICTURES = 64


def y_ticks(up: Scale, unit: Unit) -> list[tuple[float, str]]:
    """Return (value, text) of each tick of a y axis."""
    if up.log:
        return [(tick, tick_labels([tick], tick, unit)[0]) for tick in log_ticks(up.low, up.high)]
    most = ticks_in(abs(up.end - up.start))
    step = tick_step(up.high - up.low, most, unit, max(abs(up.low), abs(up.high)))
    values = tick_values(up.low, up.high, step)
    return list(zip(values, tick_labels(values, step, unit), strict=True))


def ticks_in(pixels: float) -> int:
    """Return the maximum number of tick steps on a y axis."""
    return max(2, int(pixels / 36))


class TickAxis(pyqtgraph.AxisItem):
    """Left or bottom axis of a plot.

    Plots of equal width have the same bottom axis: it is painted once, and each draws the picture.
    """

    def __init__(self, orientation: str, shared: Shared) -> None:
        """Create an axis.

        Args:
            orientation: `left` or `bottom`.
            shared: painted axes.
        """
        super().__init__(orientation)
        self.enableAutoSIPrefix(False)  # noqa: FBT003 - pyqtgraph's argument
        self.setStyle(hideOverlappingLabels=False, tickLength=0)  # bounds: 15 px over both ends
        self._shared = shared
        self._is_left = orientation == "left"
        if self._is_left:
            self.setWidth(LEFT)
        else:
            self.setHeight(BOTTOM)
        self._shown: tuple[Scale, Unit | XKind, Palette] | None = None
        self._pixmap: QPixmap | None = None

    def prepare(self, scale: Scale, what: Unit | XKind, palette: Palette, ratio: float) -> None:
        """Paint the picture if it is not there yet.

        Args:
            scale: pixels from the top or left end of the curves.
            what: unit of the values, or the kind of x.
            palette: colours.
            ratio: screen pixels per logical pixel.
        """
        self._shown = (scale, what, palette)
        key = (scale, what, palette.scheme, ratio, self._is_left)
        pixmap = self._shared.axes.get(key)
        if pixmap is None:
            if len(self._shared.axes) >= _MOST_PICTURES:
                self._shared.axes.clear()
            bounds = self.boundingRect()
            pixmap = QPixmap(round(bounds.width() * ratio), round(bounds.height() * ratio))
            pixmap.setDevicePixelRatio(ratio)
            pixmap.fill(QColor(0, 0, 0, 0))
            painter = QPainter(pixmap)
            painter.translate(-bounds.topLeft())
            self._paint(painter)
            painter.end()
            self._shared.axes[key] = pixmap
        if pixmap is not self._pixmap:
            self._pixmap = pixmap
            self.update()

    def paint(self, painter: QPainter, option: object, widget: object = None) -> None:  # noqa: ARG002 - Qt's arguments
        if self._exportOpts is not False:
            self._paint(painter)
        elif self._pixmap is not None:
            self._shared.copy(painter, self._pixmap, self.boundingRect())

    def _ticks(self) -> list[tuple[float, str]]:
        if self._shown is None:
            return []
        scale, what, _ = self._shown
        if self._is_left:
            return y_ticks(scale, what)  # type: ignore[arg-type]  # a left axis has a unit
        most = max(2, int(scale.end / 64))
        return x_ticks(what, scale.low, scale.high, most, log=scale.log)  # type: ignore[arg-type]  # a kind of x

    def _paint(self, painter: QPainter) -> None:
        if self._shown is None:
            return
        scale, _, palette = self._shown
        painter.setFont(plot_font(Type.SMALL))
        if self._is_left:
            painter.setPen(QColor(palette.secondary))
            for tick, text in self._ticks():
                box = QRectF(0, round(scale.pixel(tick)) + 0.5 - 10, LEFT - 8, 20)
                painter.drawText(box, RIGHT_MIDDLE, text)
        else:
            self._paint_x(painter, scale, palette)

    def _paint_x(self, painter: QPainter, scale: Scale, palette: Palette) -> None:
        metrics = plot_metrics(Type.SMALL)
        line, words = QColor(palette.line), QColor(palette.secondary)
        painter.setPen(line)
        painter.drawLine(QLineF(0, 0.5, scale.end, 0.5))
        taken = -1e9
        for tick, text in self._ticks():
            x = round(scale.pixel(tick)) + 0.5
            if not -1 <= x <= scale.end + 1:
                continue
            width = metrics.horizontalAdvance(text)
            left = min(max(x - width / 2, -_OVER), scale.end + min(RIGHT, _OVER) - width)
            painter.setPen(line)
            painter.drawLine(QLineF(x, 0.5, x, 4.5))
            if left < taken + 8:
                continue
            taken = left + width
            painter.setPen(words)
            painter.drawText(QPointF(left, 4.5 + metrics.ascent()), text)
