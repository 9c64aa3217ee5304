"""Crosshair of a plot: the line of all plots, the values on it, and x on the axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyqtgraph
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QGraphicsSimpleTextItem

from torchdeck.runs.plots import entries
from torchdeck.runs.plots.entries import Entry, nearest, nearest_member
from torchdeck.runs.plots.exchange import Curve, PlotData
from torchdeck.runs.plots.units import Unit, value_text
from torchdeck.runs.plots.x_axis import XKind, x_text
from torchdeck_app.runs.plots.curves import paint_curve, series_colour
from torchdeck_app.runs.plots.geometry import Area, plot_font
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.palette import Palette

_RADIUS = 3.0


class Crosshair(pyqtgraph.GraphicsObject):
    """Line at x, dots of the values there, and the one series of a band that is near the pointer.

    pyqtgraph's InfiniteLine computes its bounds again for every move.
    """

    def __init__(self, view: pyqtgraph.ViewBox) -> None:
        super().__init__()
        self.setParentItem(view)
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)
        self.setZValue(10)
        self._bounds = QRectF()
        self._shown: tuple[Area, Palette, float, Curve | None, list[tuple[QPointF, QColor]]] | None = None

    def boundingRect(self) -> QRectF:  # noqa: N802 - Qt's name
        return self._bounds

    def show_at(
        self, area: Area, x: float, entries: Sequence[Entry], single: Curve | None, palette: Palette
    ) -> None:
        """Show the values at x."""
        place = area.across.pixel(x)
        dots = []
        for entry in entries:
            if entry.value is not None and np.isfinite(entry.value):
                y = area.up.pixel(entry.value)
                if 0 <= y <= area.up.start:
                    dots.append((QPointF(place, y), series_colour(palette, entry.colour)))
        self._move(area.rect if single is not None else QRectF(place - 5, 1, 10, area.up.start - 2))
        self._shown = (area, palette, place, single, dots)

    def hide_it(self) -> None:
        """Show nothing."""
        if self._shown is not None:
            self._shown = None
            self._move(QRectF())

    def _move(self, bounds: QRectF) -> None:
        self.prepareGeometryChange()
        self._bounds = bounds
        self.update()

    def paint(self, painter: QPainter, option: object, widget: object = None) -> None:  # noqa: ARG002 - Qt's arguments
        if self._shown is None or self._exportOpts is not False:
            return
        area, palette, place, single, dots = self._shown
        painter.setPen(QColor(palette.secondary))
        painter.drawLine(QLineF(round(place) + 0.5, 0, round(place) + 0.5, area.up.start))
        if single is not None:
            paint_curve(painter, area, single, QColor(palette.accent))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        for at, colour in dots:
            painter.setBrush(colour)
            painter.drawEllipse(at, _RADIUS, _RADIUS)


class AxisTag(QGraphicsSimpleTextItem):
    """Text on a dark ground: x of the crosshair, on the axis."""

    def __init__(self, parent: pyqtgraph.PlotItem) -> None:
        super().__init__(parent)
        self.setFont(plot_font(Type.SMALL))
        self.setZValue(20)
        self._ground = QColor()
        self.hide()

    def show_at(self, text: str, x: float, y: float, right: float, palette: Palette) -> None:
        """Show the text centered at x, below y and left of `right`."""
        self._ground = QColor(palette.text)
        self.setBrush(QColor(palette.surface))
        self.setText(text)
        width = self.boundingRect().width()
        self.setPos(min(max(x - width / 2, 0.0), right - width), y)
        self.show()

    def boundingRect(self) -> QRectF:  # noqa: N802 - Qt's name
        return super().boundingRect().adjusted(-6, -1, 6, 1)

    def paint(self, painter: QPainter, option: object, widget: object = None) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._ground)
        painter.drawRoundedRect(self.boundingRect(), 3, 3)
        super().paint(painter, option, widget)  # type: ignore[arg-type]  # Qt's


def single_at(content: PlotData, x: float, y: float, unit: Unit) -> tuple[Curve, Entry] | None:
    """Return the member of a band nearest to a point, as a curve, and its value at `x`."""
    found = nearest_member(content, x, y)
    if found is None:
        return None
    band, member = found
    value = float(band.values[member][nearest(band.x, x)])
    entry = Entry(band.members[member], -1, value_text(value, unit), value)
    return Curve("", -1, band.x, band.values[member].astype(np.float64), breaks=band.breaks), entry


_MOST_WORDS = 8
"""Values that are said at a crosshair."""


def words_at(content: PlotData, kind: XKind, x: float, unit: Unit) -> str:
    """Return x and the values there, for screen readers."""
    found = entries.at(content, x, unit)[:_MOST_WORDS]
    values = ", ".join(f"{each.label} {each.text}" if len(found) > 1 else each.text for each in found)
    return f"{x_text(kind, x)}: {values or 'nothing logged'}"
