"""Heat map widget."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFontMetricsF,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from torchdeck.runs.folders.rank_nodes import rank_words
from torchdeck.runs.plots.exchange import Array
from torchdeck.runs.plots.ranges import stepped_range
from torchdeck.runs.plots.rank_matrix import Matrix
from torchdeck.runs.plots.stragglers import Straggler, ratios
from torchdeck.runs.plots.units import value_text
from torchdeck.runs.plots.x_axis import x_text, x_ticks
from torchdeck_app.runs.plots.geometry import BOTTOM, LEFT, Scale
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.announcements import announce
from torchdeck_app.widgets.chart import LEVELS, levels, viridis

_RIGHT, _TOP, _BAR = 112, 8, 12
_TALLEST = 24
"""Maximum height of a rank's row in pixels: four ranks do not fill a screen."""


_SEEN = 5.0
"""Minimum height in pixels of the row of a straggler."""
_KEYS: Mapping[int, tuple[int, int]] = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_PageUp: (-16, 0),
    Qt.Key.Key_PageDown: (16, 0),
    Qt.Key.Key_Home: (0, -1_000_000),
    Qt.Key.Key_End: (0, 1_000_000),
}
"""Ranks and columns that each key moves by."""


class HeatMap(QWidget):
    """Heat map of a matrix; ranks downwards, x to the right, and the colour scale next to it."""

    pointed = Signal(object)
    """Emitted with x under the pointer; None when it has left."""
    told = Signal(str)
    """Emitted with the text for the pointer position; empty when it has left."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._matrix: Matrix | None = None
        self._image = QImage()
        self._range: tuple[float, float] | None = None
        self._delaying: dict[int, int | None] = {}
        self._cursor: float | None = None
        self._pointer: QPointF | None = None
        self._cell: tuple[int, int] | None = None
        """Row and column that the keys have moved to."""
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumSize(320, 120)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName("Heat map of ranks over time")
        theme.changed.connect(self._colour)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(640, 240)

    @property
    def columns(self) -> int:
        """Return the number of columns to read: one per two pixels."""
        return max(16, round((self.width() - LEFT - _RIGHT) * self.devicePixelRatioF() / 2))

    @property
    def area(self) -> QRectF:
        """Return the area of the ranks."""
        height = max(1.0, self.height() - _TOP - BOTTOM)
        if self._matrix is not None and self._matrix.ranks:
            height = min(height, float(_TALLEST * len(self._matrix.ranks)))
        return QRectF(LEFT, _TOP, max(1.0, self.width() - LEFT - _RIGHT), height)

    def show_matrix(self, matrix: Matrix) -> None:
        """Draw this matrix from now on."""
        if self._matrix is None or self._matrix.metric != matrix.metric:
            self._range = None
        self._matrix = matrix
        finite = matrix.values[np.isfinite(matrix.values)]
        if len(finite):
            # a few slow moments must not make all else one colour
            low, high = np.percentile(finite, (0.5, 99.5)).tolist()
            unit = matrix.metric.unit if matrix.metric is not None else ""
            # nor may the one slow rank of a thousand be clipped
            slow = [float(np.nanmedian(_stretch(matrix, straggler))) for straggler in matrix.found]
            self._range = stepped_range(low, max([high, *slow]), self._range, unit)
        self._colour()

    def mark_delaying(self, ranks: Mapping[int, int | None]) -> None:
        """Frame the rows of ranks that make the others wait: rank → first slow step; None: not known."""
        if self._delaying != dict(ranks):
            self._delaying = dict(ranks)
            self.update()

    def set_cursor(self, x: float | None) -> None:
        """Show the cursor at x."""
        self._cursor = x
        self.update()

    def rank_at(self, position: QPointF) -> tuple[int, int] | None:
        """Return (row, column) of the matrix at a point."""
        matrix, area = self._matrix, self.area
        if matrix is None or not matrix.values.size or not area.contains(position):
            return None
        rows, columns = matrix.values.shape
        row = int((position.y() - area.top()) / area.height() * rows)
        column = int((position.x() - area.left()) / area.width() * columns)
        return min(row, rows - 1), min(column, columns - 1)

    def _colour(self) -> None:
        """Map values to colours."""
        matrix = self._matrix
        if matrix is None or not matrix.values.size or self._range is None:
            self._image = QImage()
            self.update()
            return
        self._image = self._coloured(matrix.values)
        self.update()

    def _coloured(self, values: Array) -> QImage:
        """Return an image with one pixel per value."""
        assert self._range is not None  # noqa: S101 - there are values
        low, high = self._range
        table = np.append(viridis(), np.uint32(self._theme.colour("raised").rgb()))
        nothing = np.isnan(values)
        places = np.where(nothing, LEVELS, levels(np.where(nothing, low, values), low, high))
        pixels = np.ascontiguousarray(table[places])
        rows, columns = values.shape
        return QImage(pixels.tobytes(), columns, rows, 4 * columns, QImage.Format.Format_RGB32).copy()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 - Qt's name and arguments
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._theme.colour("surface"))
        painter.setFont(font(Type.SMALL))
        matrix = self._matrix
        if matrix is None or self._image.isNull():
            self._paint_focus(painter, None)
            painter.end()
            return
        painter.drawImage(self.area, self._image)
        self._paint_slow(painter, matrix)
        self._paint_delaying(painter, matrix)
        self._paint_ranks(painter, matrix)
        self._paint_x(painter, matrix)
        self._paint_scale(painter, matrix)
        if self._cursor is not None:
            x = round(self._across(matrix).pixel(self._cursor)) + 0.5
            if self.area.left() <= x <= self.area.right() + 1:
                painter.setPen(QPen(QColor("#ffffff"), 1))
                painter.drawLine(QLineF(x, self.area.top(), x, self.area.bottom()))
        self._paint_focus(painter, matrix)
        painter.end()

    def _paint_slow(self, painter: QPainter, matrix: Matrix) -> None:
        """Paint the rows of stragglers high enough to be visible for any number of ranks."""
        area = self.area
        tall = area.height() / len(matrix.ranks)
        if tall >= _SEEN:
            return
        for straggler in matrix.found:
            y = area.top() + (straggler.row + 0.5) * tall - _SEEN / 2
            y = min(max(y, area.top()), area.bottom() - _SEEN)
            row = self._coloured(matrix.values[straggler.row : straggler.row + 1])
            painter.drawImage(QRectF(area.left(), y, area.width(), _SEEN), row)

    def _paint_delaying(self, painter: QPainter, matrix: Matrix) -> None:
        """Frame the rows from the first slow step on; high enough to be visible for any number of ranks."""
        area, across = self.area, self._across(matrix)
        tall = max(_SEEN, area.height() / len(matrix.ranks))
        painter.setPen(QPen(self._theme.colour("bad"), 2))
        for row, rank in enumerate(matrix.ranks):
            if rank not in self._delaying:
                continue
            first = self._delaying[rank]
            known = first is not None and matrix.asked.kind == "step"
            left = max(area.left(), across.pixel(first or 0)) if known else area.left()
            middle = area.top() + (row + 0.5) * area.height() / len(matrix.ranks)
            if left < area.right():
                frame = QRectF(left, middle - tall / 2, area.right() - left, tall)
                painter.drawRect(frame.adjusted(1, 1, -1, -1))

    def _paint_focus(self, painter: QPainter, matrix: Matrix | None) -> None:
        """Frame the map while it has the focus, and the row that the keys have moved to."""
        if not self.hasFocus():
            return
        painter.setPen(QPen(self._theme.colour("accent"), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(QRectF(self.rect()).adjusted(0.5, 0.5, -1.5, -1.5))
        if matrix is not None and self._cell is not None and self._cell[0] < len(matrix.ranks):
            tall = self.area.height() / len(matrix.ranks)
            y = self.area.top() + self._cell[0] * tall
            painter.drawRect(QRectF(0.5, y, self.area.right(), max(2.0, tall)))

    def _across(self, matrix: Matrix) -> Scale:
        return Scale(float(matrix.edges[0]), float(matrix.edges[-1]), self.area.left(), self.area.right())

    def _paint_ranks(self, painter: QPainter, matrix: Matrix) -> None:
        area, count = self.area, len(matrix.ranks)
        tall = area.height() / count
        stride = next(
            step for step in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if step * tall >= 16 or step == 512
        )
        slow = {straggler.row for straggler in matrix.found}
        slow |= {row for row, rank in enumerate(matrix.ranks) if rank in self._delaying}
        right = int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight)
        taken = [area.top() + (row + 0.5) * tall for row in slow]
        for row in [*slow, *range(0, count, stride)]:
            y = area.top() + (row + 0.5) * tall
            if row not in slow and any(abs(y - other) < 16 for other in taken):
                continue
            painter.setPen(self._theme.colour("text" if row in slow else "secondary"))
            text = f"▸ {matrix.ranks[row]}" if row in slow else str(matrix.ranks[row])
            painter.drawText(QRectF(0, y - 10, LEFT - 8, 20), right, text)

    def _paint_x(self, painter: QPainter, matrix: Matrix) -> None:
        area, scale, metrics = self.area, self._across(matrix), QFontMetricsF(painter.font())
        ticks = x_ticks(matrix.asked.kind, scale.low, scale.high, max(2, int(area.width() / 96)), log=False)
        for tick, label in ticks:
            x = round(scale.pixel(tick)) + 0.5
            painter.setPen(self._theme.colour("line"))
            painter.drawLine(QLineF(x, area.bottom(), x, area.bottom() + 4))
            painter.setPen(self._theme.colour("secondary"))
            width = metrics.horizontalAdvance(label)
            painter.drawText(QPointF(x - width / 2, area.bottom() + 5 + metrics.ascent()), label)

    def _paint_scale(self, painter: QPainter, matrix: Matrix) -> None:
        assert self._range is not None  # noqa: S101 - there is an image
        unit = matrix.metric.unit if matrix.metric is not None else ""
        area = self.area
        bar = QRectF(area.right() + 16, area.top(), _BAR, max(area.height(), 32.0))
        colours = np.ascontiguousarray(viridis()[::-1])
        painter.drawImage(bar, QImage(colours.tobytes(), 1, 256, 4, QImage.Format.Format_RGB32))
        painter.setPen(self._theme.colour("secondary"))
        left, width = bar.right() + 8, self.width() - bar.right() - 8
        for value, y in ((self._range[1], bar.top()), (self._range[0], bar.bottom() - 16)):
            middle = int(Qt.AlignmentFlag.AlignVCenter)
            painter.drawText(QRectF(left, y, width, 16), middle, value_text(value, unit))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        at, matrix = self.rank_at(event.position()), self._matrix
        if at is None or matrix is None:
            self.leaveEvent(event)
            return
        x = self._across(matrix).value(event.position().x())
        self.pointed.emit(x)
        self.told.emit(self._words(matrix, *at, x))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        """Move over ranks and time with the arrow keys; what is there is said."""
        matrix, step = self._matrix, _KEYS.get(event.key())
        if step is None or matrix is None or not matrix.values.size:
            super().keyPressEvent(event)
            return
        rows, columns = matrix.values.shape
        before = self._cell
        row, column = (0, columns - 1) if before is None else (before[0] + step[0], before[1] + step[1])
        row, column = min(max(row, 0), rows - 1), min(max(column, 0), columns - 1)
        self._cell = (row, column)
        x = float(matrix.edges[column] + matrix.edges[column + 1]) / 2
        text = self._words(matrix, row, column, x)
        self.pointed.emit(x)
        self.told.emit(text)
        self.setAccessibleDescription(text)
        announce(self, text)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802 - Qt's name
        super().focusOutEvent(event)
        if self._cell is not None:
            self._cell = None
            self.leaveEvent(event)

    def _words(self, matrix: Matrix, row: int, column: int, x: float) -> str:
        """Return rank, x, value and its ratio to the median."""
        value = float(matrix.values[row, column])
        unit = matrix.metric.unit if matrix.metric is not None else ""
        text = f"{rank_words(matrix.ranks[row], matrix.nodes)}, {x_text(matrix.asked.kind, x)}: "
        if np.isfinite(value):
            ratio = float(ratios(matrix.values[:, column : column + 1])[row, 0])
            text += f"{value_text(value, unit)}, {ratio:.2f} × the median"
        else:
            text += "nothing logged"
        return text

    def leaveEvent(self, event: object) -> None:  # noqa: ARG002, N802 - Qt's name
        self.pointed.emit(None)
        self.told.emit("")


def _stretch(matrix: Matrix, straggler: Straggler) -> Array:
    """Return the values of a rank while it lagged behind."""
    found: Array = matrix.values[straggler.row, straggler.first : straggler.last + 1]
    return found
