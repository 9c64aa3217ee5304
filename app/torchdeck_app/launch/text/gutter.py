"""Line numbers beside the text, and the sign of a line with a problem."""

from __future__ import annotations

from typing import Protocol

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QToolTip, QWidget

from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.tooltip import plain_tip

SIGN_WIDTH = 16


class Lines(Protocol):
    """What the gutter needs to know of the text area."""

    def visible_lines(self) -> list[tuple[int, QRect]]:
        """Number, from 1, and place of each line in sight, in the area's coordinates."""
        ...

    def current_line(self) -> int: ...
    def mark(self, line: int) -> str: ...
    def line_count(self) -> int: ...


class Gutter(QWidget):
    """Painted beside the area that made it."""

    def __init__(self, area: QWidget, lines: Lines, theme: Theme) -> None:
        super().__init__(area)
        self._lines = lines
        self._theme = theme

    def width_wanted(self) -> int:
        """Pixels for the sign and as many figures as there are, three at least, so that it seldom changes."""
        figures = max(3, len(str(self._lines.line_count())))
        return SIGN_WIDTH + figures * self.fontMetrics().horizontalAdvance("9") + 12

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(self.width_wanted(), 0)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        painter = QPainter(self)
        painter.fillRect(event.rect(), self._theme.colour("window"))
        current = self._lines.current_line()
        for number, place in self._lines.visible_lines():
            row = QRect(0, place.top(), self.width() - 8, place.height())
            if self._lines.mark(number):
                painter.setPen(self._theme.colour("bad"))
                painter.drawText(
                    QRect(0, row.top(), SIGN_WIDTH, row.height()), Qt.AlignmentFlag.AlignCenter, "✕"
                )
            painter.setPen(self._theme.colour("text" if number == current else "secondary"))
            painter.drawText(row, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop, str(number))
        painter.end()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(
                event.globalPos(), plain_tip(self._lines.mark(self._line_at(event.pos()))), self
            )
            return True
        return super().event(event)

    def _line_at(self, position: QPoint) -> int:
        lines = self._lines.visible_lines()
        return next(
            (number for number, place in lines if place.top() <= position.y() < place.bottom() + 1), 0
        )
