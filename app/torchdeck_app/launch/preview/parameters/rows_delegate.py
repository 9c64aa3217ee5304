"""Below the words, which rows of a tensor a rank holds: a thin bar, the whole tensor being its track."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QRectF, QSize
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

from torchdeck_app.launch.preview.parameters.model import BAR
from torchdeck_app.theme.theme import Theme

_HEIGHT = 3
_INSET = 4
_ROW = 28


class RowsDelegate(QStyledItemDelegate):
    """Draws the column of held rows."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().paint(painter, option, index)
        part = index.data(BAR)
        if part is None:
            return
        area = QRectF(option.rect)
        track = QRectF(area.left() + _INSET, area.bottom() - _HEIGHT - 1, area.width() - 2 * _INSET, _HEIGHT)
        painter.fillRect(track, self._theme.colour("line"))
        begin, end = part
        if end > begin:
            width = max(1.0, (end - begin) * track.width())
            held = QRectF(track.left() + begin * track.width(), track.top(), width, _HEIGHT)
            painter.fillRect(held, self._theme.palette.series[0])

    def sizeHint(  # noqa: N802 - Qt's name
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QSize:
        hint = super().sizeHint(option, index)
        return QSize(hint.width(), max(hint.height(), _ROW))
