"""Painted chart whose marks show their value to pointer, keyboard and screen reader."""

from __future__ import annotations

from abc import abstractmethod
from typing import cast

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QFocusEvent, QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from torchdeck.shown_text import shown
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.tooltip import plain_tip

_PAGE = 10


class Chart(QWidget):
    """Chart of marks counted from 0, one of which can be selected by the pointer or the arrow keys."""

    pointed = Signal(str)
    """Emitted with the text of the selected mark; empty if there is none."""

    def __init__(self, theme: Theme, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._mark: int | None = None
        self.setAccessibleName(name)
        self.setFont(font(Type.SMALL))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        theme.changed.connect(self.update)

    @property
    def mark(self) -> int | None:
        """Return the selected mark."""
        return self._mark

    @abstractmethod
    def marks(self) -> int:
        """Total number."""

    @abstractmethod
    def mark_at(self, place: QPointF) -> int | None:
        """Return the mark at a position in the widget."""

    @abstractmethod
    def text_of(self, mark: int) -> str:
        """Return its value as text."""

    @abstractmethod
    def draw(self, painter: QPainter) -> None:
        """Paint the whole chart."""

    def moved(self, mark: int, key: Qt.Key) -> int:
        """Return the mark that `key` leads to from `mark`; the caller clamps it to the range."""
        steps = {
            Qt.Key.Key_Left: -1,
            Qt.Key.Key_Up: -1,
            Qt.Key.Key_Right: 1,
            Qt.Key.Key_Down: 1,
            Qt.Key.Key_PageUp: -_PAGE,
            Qt.Key.Key_PageDown: _PAGE,
        }
        return mark + steps[key]

    def point_at(self, mark: int | None) -> None:
        """Select `mark`, or none."""
        if mark is not None and not 0 <= mark < self.marks():
            mark = None
        text = "" if mark is None else self.text_of(mark)
        if mark != self._mark or text != self.accessibleDescription():
            self._mark = mark
            self.setAccessibleDescription(text)
            self.pointed.emit(text)
            self.update()

    def changed(self) -> None:
        """Update after the marks changed: emit the selected one again and repaint."""
        self.point_at(self._mark)
        self.update()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip:
            asked = cast("QHelpEvent", event)
            mark = self.mark_at(QPointF(asked.pos()))
            text = "" if mark is None else self.text_of(mark)
            QToolTip.showText(asked.globalPos(), plain_tip(text) if "<" in text else shown(text), self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 - Qt's name
        painter = QPainter(self)
        self.draw(painter)
        if self.hasFocus():
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(self._theme.colour("accent"), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        painter.end()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        self.point_at(self.mark_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802 - Qt's name
        if not self.hasFocus():
            self.point_at(None)
        super().leaveEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 - Qt's name
        by_key = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
        if self._mark is None and event.reason() in by_key:
            self.point_at(0)
        super().focusInEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802 - Qt's name
        self.point_at(None)
        super().focusOutEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        target = self._target(Qt.Key(event.key()))
        if target is None:
            super().keyPressEvent(event)
        else:
            self.point_at(max(0, min(target, self.marks() - 1)))

    def _target(self, key: Qt.Key) -> int | None:
        if key == Qt.Key.Key_Home:
            return 0
        if key == Qt.Key.Key_End:
            return self.marks() - 1
        arrows = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down)
        if key not in (*arrows, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            return None
        return 0 if self._mark is None else self.moved(self._mark, key)
