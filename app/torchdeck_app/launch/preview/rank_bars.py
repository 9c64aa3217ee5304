"""Bars of the data each rank reads in the whole run."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from torchdeck.plan.preview.data_share import DataPreview, amount, deviation
from torchdeck.quantities import rate
from torchdeck_app.launch.preview.data_cells import Cells, ranks_named, summed_up
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.chart import Chart

_LAID = 12
"""Maximum number of ranks with a row and numbers each; more are shown side by side."""
_ROW = 28
_BAR = 16
_COLUMNS = 120
_LEAST = 3
"""Minimum width of a column in pixels."""
_GAP = 8
_INSET = 4
"""Space for the focus frame."""


class RankBars(Chart):
    """Chart with a bar per rank, or group of ranks, from 0; the mean as a line."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "What each rank reads", parent)
        self._data: DataPreview | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_data(self, data: DataPreview) -> None:
        """Show `data`."""
        self._data = data
        self.updateGeometry()
        self.changed()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        ranks = 0 if self._data is None else len(self._data.samples)
        return QSize(320, ranks * _ROW if ranks <= _LAID else _COLUMNS + self.fontMetrics().height() + 4)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(160, self.sizeHint().height())

    def marks(self) -> int:
        cells = self._cells()
        return 0 if cells is None else cells.shape[0]

    def mark_at(self, place: QPointF) -> int | None:
        count = self.marks()
        if not count or not self.rect().contains(place.toPoint()):
            return None
        if self._laid():
            return min(int(place.y() / _ROW), count - 1)
        field = self._field()
        if not field.left() <= place.x() < field.right():
            return None
        return min(int((place.x() - field.left()) / field.width() * count), count - 1)

    def text_of(self, mark: int) -> str:
        data, cells = self._data, self._cells()
        if data is None or cells is None:
            return ""
        first, end = int(cells.rows[mark]), int(cells.rows[mark + 1])
        if end - first == 1:
            apart = deviation(data, first)
            beside = "as much as the mean" if apart == "even" else f"{apart} from the mean"
            return f"rank {first:,}: {amount(data, first)}, {beside}"
        most, mean = float(cells.most[mark, 0]), cells.mean(mark, 0)
        return f"{ranks_named(first, end - 1)}: at most {rate(most)} {data.unit}, {rate(mean)} on average"

    def draw(self, painter: QPainter) -> None:
        data, cells = self._data, self._cells()
        if data is None or cells is None:
            return
        if self._laid():
            self._draw_rows(painter, data)
        else:
            self._draw_columns(painter, data, cells)

    def _laid(self) -> bool:
        return self._data is not None and len(self._data.samples) <= _LAID

    def _field(self) -> QRectF:
        return QRectF(self.rect()).adjusted(
            _INSET + self._axis() + _GAP, _INSET, -_INSET, -self.fontMetrics().height() - _INSET
        )

    def _axis(self) -> int:
        return self.fontMetrics().horizontalAdvance("888.8M")

    def _cells(self) -> Cells | None:
        if self._data is None:
            return None
        load = self._data.load.reshape(-1, 1)
        rows = len(load) if self._laid() else max(1, int(self._field().width()) // _LEAST)
        return summed_up(load, rows, 1)

    def _draw_rows(self, painter: QPainter, data: DataPreview) -> None:
        metrics, ranks = self.fontMetrics(), range(len(data.samples))
        labels = [f"rank {rank}" for rank in ranks]
        numbers = [f"{amount(data, rank)}   {deviation(data, rank)}" for rank in ranks]
        left = _INSET + max(metrics.horizontalAdvance(text) for text in labels) + _GAP
        beside = max(metrics.horizontalAdvance(text) for text in numbers) + 2 * _GAP
        room = max(40.0, self.width() - left - beside)
        most = float(data.load.max()) or 1.0
        for rank in ranks:
            top = rank * _ROW
            painter.setPen(self._theme.colour("secondary"))
            middle = Qt.AlignmentFlag.AlignVCenter
            painter.drawText(QRectF(_INSET, top, left, _ROW), middle, labels[rank])
            bar = QRectF(left, top + (_ROW - _BAR) // 2, room, _BAR)
            painter.fillRect(bar, self._theme.colour("raised"))
            bar.setWidth(room * float(data.load[rank]) / most)
            painter.fillRect(bar, self._bar_colour(rank))
            painter.setPen(self._theme.colour("text"))
            text = QRectF(left + room + _GAP, top, beside, _ROW)
            painter.drawText(text, middle, numbers[rank])
        at = left + room * float(data.load.mean()) / most
        self._draw_mean(painter, QPointF(at, 2), QPointF(at, len(ranks) * _ROW - 2))

    def _draw_columns(self, painter: QPainter, data: DataPreview, cells: Cells) -> None:
        field, count = self._field(), cells.shape[0]
        most = float(cells.most.max()) or 1.0
        width = field.width() / count
        gap = 1 if width >= 2 * _LEAST else 0
        for column in range(count):
            height = round(field.height() * float(cells.most[column, 0]) / most)
            left, right = round(field.left() + column * width), round(field.left() + (column + 1) * width)
            bar = QRectF(left, field.bottom() - height, right - left - gap, height)
            painter.fillRect(bar, self._bar_colour(column))
        painter.setPen(self._theme.colour("secondary"))
        line = self.fontMetrics().height()
        right_aligned = Qt.AlignmentFlag.AlignRight
        painter.drawText(QRectF(_INSET, field.top() - 2, self._axis(), line), right_aligned, rate(most))
        painter.drawText(QRectF(_INSET, field.bottom() - line, self._axis(), line), right_aligned, "0")
        below = QRectF(field.left(), field.bottom() + 3, field.width(), line)
        painter.drawText(below, Qt.AlignmentFlag.AlignLeft, "rank 0")
        painter.drawText(below, right_aligned, f"rank {len(data.samples) - 1:,}")
        at = field.bottom() - field.height() * float(np.mean(data.load)) / most
        self._draw_mean(painter, QPointF(field.left(), at), QPointF(field.right(), at))

    def _bar_colour(self, mark: int) -> str:
        return self._theme.palette.accent if mark == self.mark else self._theme.palette.series[0]

    def _draw_mean(self, painter: QPainter, one: QPointF, other: QPointF) -> None:
        painter.setPen(QPen(self._theme.colour("text"), 1, Qt.PenStyle.DashLine))
        painter.drawLine(one, other)
