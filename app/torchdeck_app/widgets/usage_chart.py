"""Small chart of the last minute, with the current value."""

from __future__ import annotations

from collections import deque

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from torchdeck.shown_text import shown
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.tooltip import plain_tip

POINTS = 60


class UsageChart(QWidget):
    """Chart with title, value as text, and a filled curve; the newest point is on the right."""

    def __init__(
        self, theme: Theme, title: str, *, highest: float | None = None, parent: QWidget | None = None
    ) -> None:
        """Create an empty chart.

        Args:
            theme: provides its colours.
            title: title of the chart.
            highest: value at the upper edge; None: the largest of those shown.
            parent: Qt parent.
        """
        super().__init__(parent)
        self._theme = theme
        self._title = title
        self._highest = highest
        self._values: deque[float] = deque(maxlen=POINTS)
        self._said = "–"
        self.setAccessibleName(title)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def add(self, value: float, said: str, *, exact: str = "") -> None:
        """Append a value.

        Args:
            value: the value to draw.
            said: the value as text.
            exact: tooltip text.
        """
        self._values.append(value)
        self._said = said
        self.setAccessibleDescription(said)
        self.setToolTip(plain_tip(exact))
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(168, 72)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        palette = self._theme.palette
        line = self.fontMetrics().height()
        painter.setPen(QColor(palette.secondary))
        painter.setFont(font(Type.SMALL))
        painter.drawText(QRectF(0, 0, self.width(), line), Qt.AlignmentFlag.AlignLeft, shown(self._title))
        painter.setPen(QColor(palette.text))
        painter.setFont(font(Type.BODY))
        painter.drawText(QRectF(0, 0, self.width(), line), Qt.AlignmentFlag.AlignRight, self._said)
        area = QRectF(0, line + 4, self.width(), self.height() - line - 5)
        painter.setPen(QPen(QColor(palette.line), 1))
        painter.drawLine(area.bottomLeft(), area.bottomRight())
        curve = self._curve(area)
        if len(curve) < 2:
            return
        colour = QColor(palette.series[0])
        fill = QColor(colour)
        fill.setAlphaF(0.18)
        closed = QPolygonF(
            [*curve, QPointF(curve[-1].x(), area.bottom()), QPointF(curve[0].x(), area.bottom())]
        )
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(fill)
        painter.drawPolygon(closed)
        painter.setPen(QPen(colour, 1))
        painter.drawPolyline(QPolygonF(curve))

    def _curve(self, area: QRectF) -> list[QPointF]:
        top = self._highest if self._highest is not None else max([*self._values, 1e-9]) * 1.1
        step = area.width() / (POINTS - 1)
        left = area.right() - step * (len(self._values) - 1)
        return [
            QPointF(left + step * at, area.bottom() - area.height() * min(1.0, value / top if top else 0.0))
            for at, value in enumerate(self._values)
        ]
