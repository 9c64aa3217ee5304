"""Legend that assigns colours to overlaid runs."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QLineF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QHelpEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from torchdeck.shown_text import shown
from torchdeck_app.runs.plots.painting import series_colour
from torchdeck_app.runs.plots.text import LEFT_MIDDLE, plot_font
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID

_ROW = 20
_SIGN = 16
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
        self.setVisible(len(names) > 1)
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
            painter.drawLine(QLineF(box.left(), middle, box.left() + _SIGN, middle))
            text = box.adjusted(_SIGN + GRID, 0, -GRID, 0)
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
