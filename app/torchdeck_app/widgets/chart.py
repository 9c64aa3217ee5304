"""Painted charts: marks that show their value, the usage of the last minute, and the colours of heat maps."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from functools import cache
from typing import cast

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from torchdeck.shown_text import shown
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip

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
        self._text = "–"
        self.setAccessibleName(title)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def add(self, value: float, text: str, *, exact: str = "") -> None:
        """Append a value.

        Args:
            value: the value to draw.
            text: the value as text.
            exact: tooltip text.
        """
        self._values.append(value)
        self._text = text
        self.setAccessibleDescription(text)
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
        painter.drawText(QRectF(0, 0, self.width(), line), Qt.AlignmentFlag.AlignRight, self._text)
        area = QRectF(0, line + 4, self.width(), self.height() - line - 5)
        painter.setPen(QPen(QColor(palette.line), 1))
        painter.drawLine(area.bottomLeft(), area.bottomRight())
        curve = self._curve(area)
        if len(curve) >= 2:
            _paint_filled(painter, curve, area.bottom(), QColor(palette.series[0]))
        painter.end()

    def _curve(self, area: QRectF) -> list[QPointF]:
        top = self._highest if self._highest is not None else max([*self._values, 1e-9]) * 1.1
        step = area.width() / (POINTS - 1)
        left = area.right() - step * (len(self._values) - 1)
        return [
            QPointF(left + step * at, area.bottom() - area.height() * min(1.0, value / top if top else 0.0))
            for at, value in enumerate(self._values)
        ]


def _paint_filled(painter: QPainter, curve: list[QPointF], bottom: float, colour: QColor) -> None:
    fill = QColor(colour)
    fill.setAlphaF(0.18)
    closed = QPolygonF([*curve, QPointF(curve[-1].x(), bottom), QPointF(curve[0].x(), bottom)])
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(fill)
    painter.drawPolygon(closed)
    painter.setPen(QPen(colour, 1))
    painter.drawPolyline(QPolygonF(curve))


# Colours of heat maps: viridis, whose lightness increases evenly, so that it is readable with any colour
# vision.
#
# From Smith and van der Walt, "A better default colormap for matplotlib", SciPy 2015; sixteen of its colours
# are listed here, and those between are interpolated.

_VIRIDIS = (
    "440154", "481a6c", "472f7d", "414487", "39568c", "31688e", "2a788e", "23888e",
    "1f988b", "22a884", "35b779", "54c568", "7ad151", "a5db36", "d2e21b", "fde725",
)  # fmt: skip
LEVELS = 256


@cache
def viridis() -> npt.NDArray[np.uint32]:
    """Return 0xffRRGGBB from the lowest (dark) to the highest (yellow), shape (LEVELS,)."""
    known = np.array([[int(text[at : at + 2], 16) for at in (0, 2, 4)] for text in _VIRIDIS])
    places = np.linspace(0, len(_VIRIDIS) - 1, LEVELS)
    red, green, blue = (
        np.round(np.interp(places, np.arange(len(_VIRIDIS)), known[:, channel])).astype(np.uint32)
        for channel in range(3)
    )
    colours: npt.NDArray[np.uint32] = (np.uint32(0xFF) << 24) | (red << 16) | (green << 8) | blue
    return colours


def levels(values: npt.NDArray[np.float64], low: float, high: float) -> npt.NDArray[np.intp]:
    """Return the level of each of `values` on the scale from `low` to `high`, 0 to LEVELS − 1, clamped."""
    share = (values - low) / (high - low) if high > low else np.full(values.shape, 0.5)
    places: npt.NDArray[np.intp] = np.clip(np.round(share * (LEVELS - 1)), 0, LEVELS - 1).astype(np.intp)
    return places
