"""Line over a plot: its title, and the values of its series."""

from __future__ import annotations

from collections.abc import Sequence

import pyqtgraph
from PySide6.QtCore import QLineF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QGraphicsSimpleTextItem

from torchdeck.runs.plots.entries import Entry
from torchdeck.shown_text import shown
from torchdeck_app.runs.plots.curves import series_colour
from torchdeck_app.runs.plots.geometry import (
    LEFT,
    LEFT_MIDDLE,
    RIGHT,
    TOP,
    plot_font,
    plot_metrics,
    plot_width,
)
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.palette import Palette

SIGN, GAP = 10.0, 5.0


class Heading(pyqtgraph.GraphicsObject):
    """Title on the left, as many values as fit on the right."""

    def __init__(self, title: str, parent: pyqtgraph.PlotItem) -> None:
        super().__init__()
        self.setParentItem(parent)
        self._title = title
        self._words = QGraphicsSimpleTextItem(self)
        self._words.setFont(plot_font(Type.BODY))
        self._words.setPos(LEFT, (TOP - plot_metrics(Type.BODY).height()) / 2)
        self._width = 0.0
        self._entries: Sequence[Entry] = ()
        self._texts: tuple[list[str], list[float]] = [], []
        self._palette: Palette | None = None
        self.says_all = True
        """Whether every value is there with its label."""

    def boundingRect(self) -> QRectF:  # noqa: N802 - Qt's name
        # two pixels from axis and curves: Qt exposes one more than it is told
        return QRectF(LEFT + 2, 2, max(0.0, self._width - LEFT - 4), TOP - 4)

    def show_entries(self, entries: Sequence[Entry], width: float, palette: Palette) -> None:
        """Show these values in a line `width` pixels wide."""
        if palette is not self._palette or width != self._width:
            self.prepareGeometryChange()
            self._width, self._palette = width, palette
            title = plot_metrics(Type.BODY).elidedText(
                shown(self._title), Qt.TextElideMode.ElideMiddle, max(40.0, width - LEFT - RIGHT)
            )
            self._words.setText(title)
            self._words.setBrush(QColor(palette.text))
        elif entries == self._entries:
            return
        self._entries = entries
        texts, _ = self._texts = self._fitting()
        self.says_all = len(texts) == len(entries) and all(
            text == f"{entry.label} {entry.text}" for text, entry in zip(texts, entries, strict=True)
        )
        self.update()

    def _fitting(self) -> tuple[list[str], list[float]]:
        """Return the longest texts that fit, and their widths."""
        entries = self._entries
        room = self._width - LEFT - RIGHT - plot_width(Type.BODY, self._title) - 2 * GAP
        choices: list[list[str]] = [
            [f"{entry.label} {entry.text}" for entry in entries],
            [f"{entry.short or entry.label} {entry.text}" for entry in entries],
            # if colours identify runs, the series name tells more than a value
            [entry.short or entry.label for entry in entries]
            if any(entry.short for entry in entries)
            else [],
            [entry.text for entry in entries],
            [entries[0].text] if entries else [],
        ]
        for texts in filter(None, choices):
            widths = [SIGN + GAP + plot_width(Type.SMALL, text) for text in texts]
            if sum(widths) + 2 * GAP * max(0, len(widths) - 1) <= room:
                return texts, widths
        return [], []

    def paint(self, painter: QPainter, option: object, widget: object = None) -> None:  # noqa: ARG002 - Qt's arguments
        if self._palette is None:
            return
        texts, widths = self._texts
        painter.setFont(plot_font(Type.SMALL))
        x = self._width - RIGHT - sum(widths) - 2 * GAP * max(0, len(widths) - 1)
        for entry, text, taken in zip(self._entries, texts, widths, strict=False):
            paint_entry(painter, QRectF(x, 4, taken + 1, TOP - 8), entry, text, self._palette)
            x += taken + 2 * GAP


def paint_entry(
    painter: QPainter, box: QRectF, entry: Entry, text: str, palette: Palette, role: str = ""
) -> None:
    """Paint a series' sign and a text in a box."""
    y = round(box.center().y()) + 0.5
    painter.setPen(QPen(series_colour(palette, entry.colour), 2))
    painter.drawLine(QLineF(box.left(), y, box.left() + SIGN, y))
    painter.setPen(QColor(role or palette.text))
    painter.drawText(box.adjusted(SIGN + GAP, 0, 0, 0), LEFT_MIDDLE, shown(text))
