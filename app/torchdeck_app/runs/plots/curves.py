"""Curves of a plot, painted from what is already reduced to columns of pixels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyqtgraph
import shiboken6
from PySide6.QtCore import QLineF, QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen, QPixmap, QPolygonF

from torchdeck.runs.plots.catalogue import Metric
from torchdeck.runs.plots.exchange import BASELINE, Array, Band, Curve, PlotData
from torchdeck.runs.plots.stretches import stretches, within
from torchdeck_app.runs.plots.axis import y_ticks
from torchdeck_app.runs.plots.geometry import CENTRE, Area, Shared, plot_font, plot_metrics
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.palette import Palette

_DOTS_BELOW = 12
"""Pixels per point above which points are also drawn as dots."""


@dataclass(frozen=True)
class Pin:
    """Values that stay in sight."""

    x: float
    texts: tuple[str, ...]


class CurvesItem(pyqtgraph.GraphicsObject):
    """Curves, bands, grid lines and messages of one plot, as one opaque picture.

    Stock items of pyqtgraph paint each curve again for every part of the screen that changes; this one paints
    once per change of the data or the axes. Exports paint it as vectors.
    """

    def __init__(self, view: pyqtgraph.ViewBox, shared: Shared) -> None:
        super().__init__()
        self.setParentItem(view)
        self.setZValue(-1)  # under crosshair and levels
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)
        self._shared = shared
        self._shown: tuple[Area, PlotData, tuple[Pin, ...], Metric, Palette] | None = None
        self._key: tuple[Any, ...] = ()
        self._pixmap = QPixmap()
        self._bounds = QRectF()

    def boundingRect(self) -> QRectF:  # noqa: N802 - Qt's name
        return self._bounds

    def prepare(
        self,
        area: Area,
        content: PlotData,
        pins: tuple[Pin, ...],
        metric: Metric,
        palette: Palette,
        ratio: float,
    ) -> None:
        """Paint the picture if anything has changed.

        Outside paint(): an exception in there ends the process.

        Args:
            area: size and ranges.
            content: curves and bands.
            pins: values that stay in sight.
            metric: unit and title.
            palette: colours.
            ratio: screen pixels per logical pixel.
        """
        key = (area, id(content), pins, metric, palette.scheme, ratio)
        if key == self._key:
            return
        self._key = key
        self._shown = (area, content, pins, metric, palette)
        if self._bounds != area.rect:
            self.prepareGeometryChange()
            self._bounds = area.rect
        size = QSizeF(area.rect.size() * ratio).toSize()
        if self._pixmap.size() != size:
            self._pixmap = QPixmap(size)
        self._pixmap.setDevicePixelRatio(ratio)
        painter = QPainter(self._pixmap)
        self._paint(painter, exact=False)
        painter.end()
        self.update()

    def paint(self, painter: QPainter, option: object, widget: object = None) -> None:  # noqa: ARG002 - Qt's arguments
        if self._exportOpts is not False:
            painter.save()
            self._paint(painter, exact=True)
            painter.restore()
        elif not self._pixmap.isNull():
            self._shared.copy(painter, self._pixmap, self._bounds)

    def _paint(self, painter: QPainter, *, exact: bool) -> None:
        if self._shown is None:
            return
        area, content, pins, metric, palette = self._shown
        painter.fillRect(area.rect, QColor(palette.surface))
        painter.setPen(QColor(palette.line))
        for tick, _ in y_ticks(area.up, metric.unit):
            y = round(area.up.pixel(tick)) + 0.5
            painter.drawLine(QLineF(0, y, area.across.end, y))
        painter.setFont(plot_font(Type.SMALL))
        for band in content.bands:
            _paint_band(painter, area, band, palette, exact=exact)
        for curve in content.curves:
            if curve.raw is not None:
                pale = series_colour(palette, curve.colour)
                pale.setAlphaF(0.35)
                paint_curve(painter, area, replace(curve, x=curve.raw[0], y=curve.raw[1]), pale)
            paint_curve(painter, area, curve, series_colour(palette, curve.colour), dashed=curve.dashed)
        _paint_odd(painter, area, content, palette)
        for pin in pins:
            _paint_pin(painter, area, pin, palette)
        _paint_message(painter, area, content, metric.title, palette)


def series_colour(palette: Palette, number: int) -> QColor:
    """Return the colour of a series by its number; -1 is the one highlighted at the pointer."""
    if number == BASELINE:
        return QColor(palette.secondary)
    if number < 0:
        return QColor(palette.accent)
    return QColor(palette.series[number % len(palette.series)])


def paint_curve(painter: QPainter, area: Area, curve: Curve, colour: QColor, *, dashed: bool = False) -> None:
    """Paint a line through the visible points, broken at gaps; dots if they are few."""
    seen = within(curve.x, area.across.low, area.across.high)
    x, y = area.across.pixels(curve.x[seen]), area.up.pixels(curve.y[seen])
    starts = np.searchsorted(curve.x[seen], curve.breaks).tolist() if curve.breaks else ()
    pen = QPen(colour, 1)
    pen.setStyle(Qt.PenStyle.DashLine if dashed else Qt.PenStyle.SolidLine)
    painter.setPen(pen)
    dots = len(x) * _DOTS_BELOW < area.across.end
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


def _paint_band(painter: QPainter, area: Area, band: Band, palette: Palette, *, exact: bool) -> None:
    seen = within(band.x, area.across.low, area.across.high)
    x = area.across.pixels(band.x[seen])
    low, high = area.up.pixels(band.low[seen]), area.up.pixels(band.high[seen])
    if area.up.log:
        low = np.where(np.isnan(low), area.up.start + 10, low)
    colour = series_colour(palette, band.colour)
    fill = QColor(colour)
    fill.setAlphaF(0.25)
    starts = np.searchsorted(band.x[seen], band.breaks).tolist() if band.breaks else ()
    for part in stretches(x + low + high, starts):
        if part.stop - part.start == 1:
            painter.setPen(QPen(fill, 3))
            painter.drawLine(QLineF(x[part.start], low[part.start], x[part.start], high[part.start]))
        elif exact:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(fill)
            around = np.concatenate((x[part], x[part][::-1]))
            painter.drawPolygon(polygon(around, np.concatenate((high[part], low[part][::-1]))))
            painter.setBrush(Qt.BrushStyle.NoBrush)
        else:
            _fill_between(painter, area.rect, x[part], low[part], high[part], fill)
    median = Curve(band.label, band.colour, band.x, band.median, breaks=band.breaks)
    paint_curve(painter, area, median, colour)


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


def _paint_pin(painter: QPainter, area: Area, pin: Pin, palette: Palette) -> None:
    """Paint a line at x, and the values next to it from the top, as many as there is room for."""
    x = round(area.across.pixel(pin.x)) + 0.5
    painter.setPen(QPen(QColor(palette.accent), 1, Qt.PenStyle.DashLine))
    painter.drawLine(QLineF(x, 0, x, area.up.start))
    metrics, room = plot_metrics(Type.SMALL), max(60.0, min(220.0, area.across.end / 2))
    for number, text in enumerate(pin.texts[: max(1, int(area.up.start / metrics.height()))]):
        fitting = metrics.elidedText(text, Qt.TextElideMode.ElideMiddle, room)
        box = _box(fitting)
        box.moveTop(number * metrics.height())
        box.moveLeft(x + 3 if x + 3 + room <= area.across.end else x - 3 - box.width())
        _paint_words(painter, box, fitting, palette.text if number else palette.accent, palette)


def _paint_odd(painter: QPainter, area: Area, content: PlotData, palette: Palette) -> None:
    """Paint a sign at the bottom for each column with non-finite values."""
    if not content.odd_count:
        return
    x = area.across.pixels(content.odd)
    pen = QPen(QColor(palette.bad), 1.5)
    painter.setPen(pen)
    bottom = area.up.start
    last = -1e9
    for place in x[(x >= 0) & (x <= area.across.end)].tolist():
        if place - last < 8:
            continue
        last = place
        painter.drawLine(QLineF(place - 3, bottom - 9, place + 3, bottom - 3))
        painter.drawLine(QLineF(place - 3, bottom - 3, place + 3, bottom - 9))


def _paint_message(painter: QPainter, area: Area, content: PlotData, title: str, palette: Palette) -> None:
    """Paint the plot's messages."""
    if content.low is None and not content.odd_count:
        is_empty = not content.curves and not content.bands
        name = title[:1].lower() + title[1:] if title[1:2].islower() else title
        text = f"No {name} yet" if is_empty else "Nothing in this range"
        box = _box(text)
        box.moveCenter(area.rect.center())
        _paint_words(painter, box, text, palette.secondary, palette)
    if content.odd_count:
        values = "value is" if content.odd_count == 1 else "values are"
        text = f"{content.odd_count:,} {values} NaN or infinite"
        box = _box(text)
        box.moveBottomLeft(area.rect.adjusted(4, 0, 0, -12).bottomLeft())
        _paint_words(painter, box, text, palette.bad, palette)


def _box(text: str) -> QRectF:
    metrics = plot_metrics(Type.SMALL)
    return QRectF(0, 0, metrics.horizontalAdvance(text) + 8, metrics.height())


def _paint_words(painter: QPainter, box: QRectF, text: str, colour: str, palette: Palette) -> None:
    """Paint text on a background that shows curves and grid lines only faintly."""
    ground = QColor(palette.surface)
    ground.setAlphaF(0.85)
    painter.fillRect(box, ground)
    painter.setPen(QColor(colour))
    painter.drawText(box, CENTRE, text)
