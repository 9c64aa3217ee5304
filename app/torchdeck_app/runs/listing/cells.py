"""Painting of the list's cells: the state as space allows, the loss with a small curve."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QStyleOptionViewItem, QWidget

from torchdeck.runs.table.row import Row
from torchdeck_app.runs.run_model import ROW
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.row_tree import RowDelegate

GAP = 8


def points(values: Sequence[float], area: QRectF) -> list[QPointF]:
    """Return the curve of `values` from left to right in `area`; non-finite values are skipped."""
    known = [(at, value) for at, value in enumerate(values) if math.isfinite(value)]
    if not known:
        return []
    low, high = min(value for _, value in known), max(value for _, value in known)
    width, span = max(1, len(values) - 1), high - low
    found = []
    for at, value in known:
        share = (value - low) / span if span else 0.5
        found.append(QPointF(area.left() + area.width() * at / width, area.bottom() - area.height() * share))
    return found


class CellDelegate(RowDelegate):
    """Delegate for rows with padding."""

    def sizeHint(  # noqa: N802 - Qt's name
        self,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,  # noqa: ARG002 - Qt's arguments
    ) -> QSize:
        """Return a size independent of the content: column widths are set elsewhere, and Qt calls this on
        every change.
        """
        return QSize(option.rect.width(), option.fontMetrics.height() + GAP + 2)


class StateDelegate(CellDelegate):
    """Symbol and word, or only the symbol in a narrow column."""

    def initStyleOption(  # noqa: N802 - Qt's name
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().initStyleOption(option, index)
        if option.fontMetrics.horizontalAdvance(option.text) + GAP > option.rect.width():
            option.text = option.text[:1]


class SparklineDelegate(CellDelegate):
    """Loss cell: the curve on the left, the number on the right."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().paint(painter, option, index)
        row = index.data(ROW)
        if not isinstance(row, Row) or not row.entry.loss_curve:
            return
        area = QRectF(option.rect)
        room = area.width() - option.fontMetrics.horizontalAdvance("88.8888") - 3 * GAP
        if room < 2 * GAP:
            return
        area = QRectF(area.left() + GAP, area.top() + 6, room, area.height() - 12)
        curve = points(row.entry.loss_curve, area)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colour = QColor(self._theme.palette.series[0])
        if len(curve) == 1:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour)
            painter.drawEllipse(curve[0], 1.5, 1.5)
        else:
            painter.setPen(QPen(colour, 1.0))
            painter.drawPolyline(curve)
        painter.restore()
