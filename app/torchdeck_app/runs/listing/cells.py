"""Painting of the list's cells: the state as space allows, the loss with a small curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPalette, QPen
from PySide6.QtWidgets import QStyle, QStyleOptionViewItem, QWidget

from torchdeck.runs.table.row import Row
from torchdeck_app.runs.run_model import ROW, RunModel
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.row_tree import RowDelegate, selected_ink

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


_SELECTED = QStyle.StateFlag.State_Selected
_PANEL = QStyle.PrimitiveElement.PE_PanelItemViewItem
_PLAIN_INK, _SELECTED_INK = QPalette.ColorRole.Text, QPalette.ColorRole.HighlightedText


class CellDelegate(RowDelegate):
    """Delegate for rows with padding. It paints the text itself: Qt's asks the model seven times per cell,
    which is too slow for 60 frames per second.
    """

    def sizeHint(  # noqa: N802 - Qt's name
        self,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,  # noqa: ARG002 - Qt's arguments
    ) -> QSize:
        """Return a size independent of the content: column widths are set elsewhere, and Qt calls this on
        every change.
        """
        return QSize(option.rect.width(), option.fontMetrics.height() + GAP + 2)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        model = index.model()
        if not isinstance(model, RunModel):
            super().paint(painter, option, index)
            return
        option.text = ""
        option.widget.style().drawPrimitive(_PANEL, option, painter, option.widget)
        text, ink, is_number, is_bold = model.cell(index)
        if not text:
            return
        if option.state & _SELECTED:
            plain = option.palette.color(_SELECTED_INK)
            painter.setPen(plain if ink is None else selected_ink(ink, plain))
        else:
            painter.setPen(option.palette.color(_PLAIN_INK) if ink is None else ink)
        metrics = option.fontMetrics
        if is_bold:
            painter.save()
            font = option.font
            font.setWeight(QFont.Weight.DemiBold)
            painter.setFont(font)
            metrics = QFontMetrics(font)
        area = option.rect
        room = area.width() - 2 * GAP
        width = metrics.horizontalAdvance(text)
        if width > room:
            text = self.fitted(text, metrics, room)
            width = metrics.horizontalAdvance(text)
        left = area.left() + area.width() - GAP - width if is_number else area.left() + GAP
        # twice as fast as a text in a rectangle
        middle = area.top() + (area.height() - metrics.height()) // 2
        painter.drawText(left, middle + metrics.ascent(), text)
        if is_bold:
            painter.restore()

    @staticmethod
    def fitted(text: str, metrics: QFontMetrics, room: int) -> str:
        """Return what is shown of a text in `room` pixels."""
        return metrics.elidedText(text, Qt.TextElideMode.ElideRight, room)


class StateDelegate(CellDelegate):
    """Symbol and word, or only the symbol in a narrow column."""

    @staticmethod
    def fitted(text: str, metrics: QFontMetrics, room: int) -> str:
        return text if metrics.horizontalAdvance(text) <= room else text[:1]


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
        room = option.rect.width() - option.fontMetrics.horizontalAdvance("88.8888") - 3 * GAP
        if room < 2 * GAP:
            return
        curve = _curve(row.entry.loss_curve, room, option.rect.height() - 12)
        painter.save()
        painter.translate(option.rect.left() + GAP, option.rect.top() + 6)
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


@lru_cache(maxsize=1024)
def _curve(values: tuple[float, ...], width: int, height: int) -> Sequence[QPointF]:
    """Return a curve that is drawn in every frame."""
    return points(values, QRectF(0, 0, width, height))
