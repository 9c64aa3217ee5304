"""Painting of a plot on a widget, an image or an SVG.

This does not use pyqtgraph: sixteen plots of 1,200 points per curve take it 80 ms per repaint, and this code
10 ms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import shiboken6
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPaintEngine, QPainter, QPen, QPolygonF

from torchdeck.runs.plots.exchange import Array, Band, Curve, PlotData
from torchdeck.runs.plots.stretches import stretches, within
from torchdeck.runs.plots.units import Unit, log_ticks, tick_labels, tick_step, tick_values
from torchdeck.runs.plots.x_axis import XKind, x_ticks
from torchdeck.shown_text import shown
from torchdeck_app.runs.plots.geometry import (
    CENTRE,
    LEFT_MIDDLE,
    RIGHT_MIDDLE,
    Scale,
    plot_font,
    plot_metrics,
)
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.palette import Palette

LEFT, RIGHT, TOP, BOTTOM = 72, 16, 32, 24
"""Margins around the curves in pixels; the same for all plots, so that they line up."""
_DOTS_BELOW = 12
"""Pixels per point above which points are also drawn as dots."""


@dataclass(frozen=True)
class Frame:
    """Position, ranges and scales of a drawn plot."""

    width: float
    height: float
    kind: XKind
    x: tuple[float, float]
    y: tuple[float, float]
    unit: Unit
    log_x: bool = False
    log_y: bool = False

    @cached_property
    def area(self) -> QRectF:
        """Return the area of the curves."""
        return QRectF(LEFT, TOP, max(1.0, self.width - LEFT - RIGHT), max(1.0, self.height - TOP - BOTTOM))

    @cached_property
    def across(self) -> Scale:
        area = self.area
        return Scale(*self.x, area.left(), area.right(), self.log_x and self.x[0] > 0)

    @cached_property
    def up(self) -> Scale:
        area = self.area
        return Scale(*self.y, area.bottom(), area.top(), self.log_y and self.y[0] > 0)


def paint(painter: QPainter, frame: Frame, data: PlotData, title: str, palette: Palette) -> None:
    """Paint everything except the legend and the cursor."""
    paint_axes(painter, frame, title, palette)
    paint_data(painter, frame, data, palette)


def paint_axes(painter: QPainter, frame: Frame, title: str, palette: Palette) -> None:
    """Paint background, title and axes, which do not change with new points."""
    painter.fillRect(QRectF(0, 0, frame.width, frame.height), QColor(palette.surface))
    painter.setFont(plot_font(Type.BODY))
    painter.setPen(QColor(palette.text))
    heading = QRectF(LEFT, 4, frame.area.width(), TOP - 8)
    painter.drawText(heading, LEFT_MIDDLE, shown(title))
    painter.setFont(plot_font(Type.SMALL))
    _paint_y_axis(painter, frame, palette)
    _paint_x_axis(painter, frame, palette)


def paint_data(painter: QPainter, frame: Frame, data: PlotData, palette: Palette) -> None:
    """Paint curves, bands, levels and signs over the axes."""
    painter.setFont(plot_font(Type.SMALL))
    painter.save()
    painter.setClipRect(frame.area.adjusted(-1, -1, 1, 1))
    for band in data.bands:
        _paint_band(painter, frame, band, palette)
    for curve in data.curves:
        if curve.raw is not None:
            pale = QColor(palette.series[curve.colour % len(palette.series)])
            pale.setAlphaF(0.35)
            raw = replace(curve, x=curve.raw[0], y=curve.raw[1])
            paint_curve(painter, frame, raw, pale)
        paint_curve(painter, frame, curve, series_colour(palette, curve.colour), dashed=curve.dashed)
    painter.restore()
    _paint_levels(painter, frame, data, palette)
    _paint_odd(painter, frame, data, palette)


def ticks_in(pixels: float) -> int:
    """Return the maximum number of tick steps on a y axis."""
    return max(2, int(pixels / 36))


def series_colour(palette: Palette, number: int) -> QColor:
    """Return the colour of a series by its number; -1 is the one highlighted at the pointer."""
    if number < 0:
        return QColor(palette.accent)
    return QColor(palette.series[number % len(palette.series)])


def paint_curve(
    painter: QPainter, frame: Frame, curve: Curve, colour: QColor, *, dashed: bool = False
) -> None:
    """Paint a line through the visible points, broken at gaps; dots if they are few."""
    seen = within(curve.x, *frame.x)
    x, y = frame.across.pixels(curve.x[seen]), frame.up.pixels(curve.y[seen])
    starts = np.searchsorted(curve.x[seen], curve.breaks).tolist() if curve.breaks else ()
    pen = QPen(colour, 1)
    pen.setStyle(Qt.PenStyle.DashLine if dashed else Qt.PenStyle.SolidLine)
    painter.setPen(pen)
    dots = len(x) * _DOTS_BELOW < frame.area.width()
    for part in stretches(x + y, starts):
        if part.stop - part.start > 1:
            painter.drawPolyline(polygon(x[part], y[part]))
        if dots or part.stop - part.start == 1:
            _paint_dots(painter, polygon(x[part], y[part]), colour)
            painter.setPen(pen)


def polygon(x: Array, y: Array) -> QPolygonF:
    """Build a polygon from points without a Python loop; shape (n,) each."""
    made = QPolygonF()
    made.resize(len(x))
    pointer: Any = shiboken6.VoidPtr  # its stubs lack data() results and sizes
    points = np.frombuffer(pointer(made.data(), 16 * len(x), True), np.float64).reshape(-1, 2)  # noqa: FBT003
    # beyond this the rasteriser loses precision; anything there is clipped
    points[:, 0], points[:, 1] = np.clip(x, -1e5, 1e5), np.clip(y, -1e5, 1e5)
    return made


def _paint_dots(painter: QPainter, points: QPolygonF, colour: QColor) -> None:
    pen = QPen(colour, 4)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    painter.setPen(pen)
    painter.drawPoints(points)


def _paint_band(painter: QPainter, frame: Frame, band: Band, palette: Palette) -> None:
    seen = within(band.x, *frame.x)
    x = frame.across.pixels(band.x[seen])
    low, high = frame.up.pixels(band.low[seen]), frame.up.pixels(band.high[seen])
    if frame.up.log:
        low = np.where(np.isnan(low), frame.area.bottom() + 10, low)
    colour = series_colour(palette, band.colour)
    fill = QColor(colour)
    fill.setAlphaF(0.25)
    starts = np.searchsorted(band.x[seen], band.breaks).tolist() if band.breaks else ()
    for part in stretches(x + low + high, starts):
        if part.stop - part.start == 1:
            painter.setPen(QPen(fill, 3))
            painter.drawLine(QLineF(x[part.start], low[part.start], x[part.start], high[part.start]))
        elif painter.paintEngine().type() == QPaintEngine.Type.SVG:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(fill)
            around = np.concatenate((x[part], x[part][::-1]))
            painter.drawPolygon(polygon(around, np.concatenate((high[part], low[part][::-1]))))
            painter.setBrush(Qt.BrushStyle.NoBrush)
        else:
            _fill_between(painter, frame.area, x[part], low[part], high[part], fill)
    median = Curve(band.label, band.colour, band.x, band.median, breaks=band.breaks)
    paint_curve(painter, frame, median, colour)


def _fill_between(painter: QPainter, area: QRectF, x: Array, low: Array, high: Array, fill: QColor) -> None:
    """Fill between two lines pixel by pixel: Qt takes 20 times as long for such a ragged polygon."""
    ratio = painter.device().devicePixelRatioF()
    left, right = max(x[0], area.left()), min(x[-1], area.right())
    columns, rows = max(1, round((right - left) * ratio)), max(1, round(area.height() * ratio))
    if right <= left:
        return
    at = left + (np.arange(columns) + 0.5) / ratio
    bottom = (np.interp(at, x, low) - area.top()) * ratio
    top = (np.interp(at, x, high) - area.top()) * ratio
    # 16-bit integers are compared four times as fast as floats
    first = np.clip(np.ceil(top - 1), -1, rows).astype(np.int16)
    last = np.clip(np.floor(bottom), -1, rows).astype(np.int16)
    row = np.arange(rows, dtype=np.int16)[:, None]
    inside = (row >= first) & (row <= last)
    alpha = fill.alpha()
    red, green, blue = (channel * alpha // 255 for channel in (fill.red(), fill.green(), fill.blue()))
    colour = alpha << 24 | red << 16 | green << 8 | blue
    pixels = np.where(inside, np.uint32(colour), np.uint32(0))
    image = QImage(pixels.tobytes(), columns, rows, 4 * columns, QImage.Format.Format_ARGB32_Premultiplied)
    painter.drawImage(QRectF(left, area.top(), columns / ratio, rows / ratio), image)


def _paint_y_axis(painter: QPainter, frame: Frame, palette: Palette) -> None:
    area, scale = frame.area, frame.up
    if scale.log:
        ticks = log_ticks(*frame.y)
        labels = [tick_labels([tick], tick, frame.unit)[0] for tick in ticks]
    else:
        most = ticks_in(area.height())
        step = tick_step(frame.y[1] - frame.y[0], most, frame.unit, max(map(abs, frame.y)))
        ticks = tick_values(*frame.y, step)
        labels = tick_labels(ticks, step, frame.unit)
    for tick, label in zip(ticks, labels, strict=True):
        y = round(scale.pixel(tick)) + 0.5
        painter.setPen(QColor(palette.line))
        painter.drawLine(QLineF(area.left(), y, area.right(), y))
        painter.setPen(QColor(palette.secondary))
        painter.drawText(
            QRectF(0, y - 10, LEFT - 8, 20),
            RIGHT_MIDDLE,
            label,
        )


def _paint_x_axis(painter: QPainter, frame: Frame, palette: Palette) -> None:
    area, scale = frame.area, frame.across
    ticks = x_ticks(frame.kind, *frame.x, max(2, int(area.width() / 64)), log=scale.log)
    bottom = round(area.bottom()) + 0.5
    painter.setPen(QColor(palette.line))
    painter.drawLine(QLineF(area.left(), bottom, area.right(), bottom))
    metrics = plot_metrics(Type.SMALL)
    taken = -1e9
    for tick, label in ticks:
        x = round(scale.pixel(tick)) + 0.5
        if not area.left() - 1 <= x <= area.right() + 1:
            continue
        width = metrics.horizontalAdvance(label)
        left = min(max(x - width / 2, 0.0), frame.width - width - 2)
        painter.setPen(QColor(palette.line))
        painter.drawLine(QLineF(x, bottom, x, bottom + 4))
        if left < taken + 8:
            continue
        taken = left + width
        painter.setPen(QColor(palette.secondary))
        painter.drawText(QPointF(left, bottom + 4 + metrics.ascent()), label)


def _paint_levels(painter: QPainter, frame: Frame, data: PlotData, palette: Palette) -> None:
    area = frame.area
    for level in data.levels:
        if not frame.y[0] <= level.value <= frame.y[1]:
            continue
        y = round(frame.up.pixel(level.value)) + 0.5
        painter.setPen(QPen(QColor(palette.text), 1, Qt.PenStyle.DashLine))
        painter.drawLine(QLineF(area.left(), y, area.right(), y))
        metrics = plot_metrics(Type.SMALL)
        width = metrics.horizontalAdvance(level.label)
        above = y - metrics.height() > area.top()
        box = QRectF(
            area.right() - width - 4, y - metrics.height() if above else y + 1, width + 4, metrics.height()
        )
        ground = QColor(palette.surface)
        ground.setAlphaF(0.85)
        painter.fillRect(box, ground)
        painter.setPen(QColor(palette.text))
        painter.drawText(box, CENTRE, level.label)


def _paint_odd(painter: QPainter, frame: Frame, data: PlotData, palette: Palette) -> None:
    """Paint a sign at the bottom for each column with non-finite values."""
    if not data.odd_count:
        return
    x = frame.across.pixels(data.odd)
    pen = QPen(QColor(palette.bad), 1.5)
    painter.setPen(pen)
    bottom = frame.area.bottom()
    last = -1e9
    for place in x[(x >= frame.area.left()) & (x <= frame.area.right())].tolist():
        if place - last < 8:
            continue
        last = place
        painter.drawLine(QLineF(place - 3, bottom - 9, place + 3, bottom - 3))
        painter.drawLine(QLineF(place - 3, bottom - 3, place + 3, bottom - 9))
