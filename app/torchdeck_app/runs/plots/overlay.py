"""Overlay of a plot: messages, the selected range, the cursor, and marked events of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from torchdeck.runs.plots import entries as legend
from torchdeck.runs.plots.exchange import Array, Curve, PlotData
from torchdeck.runs.plots.units import Unit, value_text
from torchdeck.runs.plots.x_axis import x_text
from torchdeck_app.runs.plots.geometry import CENTRE, plot_metrics
from torchdeck_app.runs.plots.legend import paint_place
from torchdeck_app.runs.plots.painting import Frame, paint_curve, series_colour
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.palette import Palette


def paint_state(painter: QPainter, frame: Frame, data: PlotData, title: str, palette: Palette) -> None:
    """Paint the plot's messages."""
    area = frame.area
    if data.low is None and not data.odd_count:
        is_empty = not data.curves and not data.bands
        name = title[:1].lower() + title[1:] if title[1:2].islower() else title
        text = f"No {name} yet" if is_empty else "Nothing in this range"
        box = _box(text)
        box.moveCenter(area.center())
        _paint_words(painter, box, text, palette.secondary, palette)
    if data.odd_count:
        values = "value is" if data.odd_count == 1 else "values are"
        text = f"{data.odd_count:,} {values} NaN or infinite"
        box = quiet_page(frame, data, _box(text))
        _paint_words(painter, box, text, palette.bad, palette)


def quiet_page(frame: Frame, data: PlotData, box: QRectF) -> QRectF:
    """Return the box in the corner of the plot crossed by the fewest lines; on a tie, the lower left one."""
    area = frame.area.adjusted(4, 2, -4, -12)
    places = []
    for right, top in ((False, False), (True, False), (False, True), (True, True)):
        placed = QRectF(box)
        placed.moveLeft(area.right() - box.width() if right else area.left())
        placed.moveTop(area.top() if top else area.bottom() - box.height())
        places.append(placed)
    lines = [(curve.x, curve.y) for curve in data.curves]
    lines += [(band.x, line) for band in data.bands for line in (band.low, band.median, band.high)]
    return min(places, key=lambda placed: sum(_crossed(frame, x, y, placed) for x, y in lines))


def _crossed(frame: Frame, x: Array, y: Array, box: QRectF) -> int:
    """Return how much of a line lies in a box, as a count out of 33 positions across it."""
    known = np.isfinite(y)
    if not known.any():
        return 0
    across, up = frame.across.pixels(x[known]), frame.up.pixels(y[known])
    at = np.linspace(box.left(), box.right(), 33)
    places = np.interp(at, across, up, left=np.nan, right=np.nan)
    return int(((places > box.top() - 4) & (places < box.bottom() + 4)).sum())


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


def paint_selection(painter: QPainter, frame: Frame, begin: float, end: float, palette: Palette) -> None:
    """Paint the range between two pixels that a drag selects."""
    area = frame.area
    low, high = sorted((begin, end))
    left, right = max(low, area.left()), min(high, area.right())
    fill = QColor(palette.accent)
    fill.setAlphaF(0.18)
    painter.fillRect(QRectF(left, area.top(), right - left, area.height()), fill)


def paint_cursor(
    painter: QPainter,
    frame: Frame,
    cursor: float,
    entries: Sequence[legend.Entry],
    single: tuple[Curve, legend.Entry] | None,
    palette: Palette,
    *,
    place: bool,
) -> None:
    """Paint the cursor and the values at it.

    Args:
        painter: painter of the plot.
        frame: frame of the plot.
        cursor: x.
        entries: the values there.
        single: the highlighted member of a band and its value.
        palette: colours.
        place: show x on the axis.
    """
    area = frame.area
    x = round(frame.across.pixel(cursor)) + 0.5
    if not area.left() <= x <= area.right() + 1:
        return
    painter.setPen(QPen(QColor(palette.secondary), 1))
    painter.drawLine(QLineF(x, area.top(), x, area.bottom()))
    if single is not None:
        painter.save()
        painter.setClipRect(area)
        paint_curve(painter, frame, single[0], QColor(palette.accent))
        painter.restore()
        entries = [single[1], *entries]
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    for entry in entries:
        if entry.value is not None and np.isfinite(entry.value):
            y = frame.up.pixel(entry.value)
            if area.top() <= y <= area.bottom():
                painter.setBrush(series_colour(palette, entry.colour))
                painter.drawEllipse(QPointF(x, y), 3, 3)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    if place:
        paint_place(painter, x_text(frame.kind, cursor), x, area, palette)


def single_at(data: PlotData, x: float, y: float, unit: Unit) -> tuple[Curve, legend.Entry] | None:
    """Return the member of a band nearest to a point, as a curve, and its value at `x`."""
    found = legend.nearest_member(data, x, y)
    if found is None:
        return None
    band, member = found
    value = float(band.values[member][legend.nearest(band.x, x)])
    entry = legend.Entry(band.members[member], -1, value_text(value, unit), value)
    return Curve("", -1, band.x, band.values[member].astype(np.float64), breaks=band.breaks), entry


MarkKind = Literal["attempt", "checkpoint", "failure"]


@dataclass(frozen=True)
class Mark:
    """Marker for one event."""

    time: float
    """Unix seconds."""
    step: int | None
    """Step of the event, if it has one."""
    kind: MarkKind
    text: str
    """Description, such as `checkpoint 1,200 saved in 3.1 s`."""
