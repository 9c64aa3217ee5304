"""Legends: the box of values at the pointer, and the colours of overlaid runs."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QLineF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QHelpEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from torchdeck.runs.plots.bands import MOST_CURVES
from torchdeck.runs.plots.entries import Entry
from torchdeck.shown_text import shown
from torchdeck_app.runs.plots.curves import series_colour
from torchdeck_app.runs.plots.geometry import (
    LEFT_MIDDLE,
    RIGHT_MIDDLE,
    plot_font,
    plot_metrics,
)
from torchdeck_app.runs.plots.heading import GAP, SIGN, paint_entry
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID


class ValueBox(QWidget):
    """Box below the plot under the pointer with the name of every value; it overlaps the other plots."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self._entries: Sequence[Entry] = ()
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFont(plot_font(Type.SMALL))
        self.hide()

    def show_at(self, entries: Sequence[Entry], x: int, top: int, bottom: int) -> None:
        """Show the entries centered at x: below `bottom` if there is room, else above `top`."""
        metrics = plot_metrics(Type.SMALL)
        self._entries = entries
        labels = max((metrics.horizontalAdvance(entry.label) for entry in entries), default=0.0)
        values = max((metrics.horizontalAdvance(entry.text) for entry in entries), default=0.0)
        width = round(SIGN + GAP + labels + 2 * GAP + values) + 16
        height = round((metrics.height() + 2) * len(entries)) + 12
        room = self.parentWidget().size()  # type: ignore[union-attr]  # it was made with one
        left = min(max(0, x - width // 2), max(0, room.width() - width))
        self.setGeometry(left, bottom if bottom + height <= room.height() else top - height, width, height)
        self.show()
        self.raise_()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 - Qt's name and arguments
        palette = self._theme.palette
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QColor(palette.line))
        painter.setBrush(QColor(palette.raised))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)  # noqa: FBT003 - Qt takes no name
        line = plot_metrics(Type.SMALL).height() + 2
        for number, entry in enumerate(self._entries):
            row = QRectF(8, 6 + number * line, self.width() - 16, line)
            paint_entry(painter, row, entry, entry.label, palette, role=palette.secondary)
            painter.setPen(QColor(palette.text))
            painter.drawText(row, RIGHT_MIDDLE, entry.text)
        painter.end()


_ROW = 20
_RUN_NAMES_SIGN = 16
_WIDTH = 176
"""Minimum width of a name in pixels; the tooltip has the whole name."""


class RunNames(QWidget):
    """Legend of all plots; hidden if there is only one run."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._names: tuple[str, ...] = ()
        self.setFont(plot_font(Type.SMALL))
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)
        self.hide()

    def set_names(self, names: Sequence[str]) -> None:
        """Show the runs in the order of their colours."""
        self._names = tuple(names)
        self.setVisible(1 < len(names) <= MOST_CURVES)  # more have no colours of their own
        self.setAccessibleName(f"Compared runs: {', '.join(names)}")
        self._fit()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(_WIDTH, _ROW)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._fit()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 - Qt's name and arguments
        painter = QPainter(self)
        palette = self._theme.palette
        painter.fillRect(self.rect(), QColor(palette.surface))
        for number, name in enumerate(self._names):
            box = self._box(number)
            middle = round(box.center().y()) + 0.5
            painter.setPen(QPen(series_colour(palette, number), 2))
            painter.drawLine(QLineF(box.left(), middle, box.left() + _RUN_NAMES_SIGN, middle))
            text = box.adjusted(_RUN_NAMES_SIGN + GRID, 0, -GRID, 0)
            fitting = self.fontMetrics().elidedText(
                shown(name), Qt.TextElideMode.ElideMiddle, int(text.width())
            )
            painter.setPen(QColor(palette.text))
            painter.drawText(text, LEFT_MIDDLE, fitting)
        painter.end()

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            at = event.pos().toPointF()
            named = [name for number, name in enumerate(self._names) if self._box(number).contains(at)]
            QToolTip.showText(event.globalPos(), plain_tip("".join(named)), self)
            return True
        return super().event(event)

    @property
    def _columns(self) -> int:
        room = max(1, (self.width() - 2 * GRID) // _WIDTH)
        return max(1, min(len(self._names), room))

    def _box(self, number: int) -> QRectF:
        width = (self.width() - 2 * GRID) / self._columns
        row, column = divmod(number, self._columns)
        return QRectF(GRID + column * width, row * _ROW, width, _ROW)

    def _fit(self) -> None:
        rows = -(-len(self._names) // self._columns)
        self.setFixedHeight(max(1, rows) * _ROW)
        self.update()
