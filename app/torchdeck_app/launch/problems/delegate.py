"""Draws a problem: its key and line, what is wrong, what would be right."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, QRect, QSize, Qt
from PySide6.QtGui import QFont, QPainter, QTextLayout, QTextOption
from PySide6.QtWidgets import QAbstractItemView, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from torchdeck.shown_text import shown
from torchdeck_app.launch.problems.rows import ProblemRow
from torchdeck_app.theme.theme import Theme

ROW_ROLE = Qt.ItemDataRole.UserRole
"""A ProblemRow."""
_PAD = 4
_SIDE = 8
_Index = QModelIndex | QPersistentModelIndex


class ProblemDelegate(QStyledItemDelegate):
    """Three texts one under the other."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:  # noqa: N802 - Qt's name
        row: ProblemRow = index.data(ROW_ROLE)
        view = option.widget
        width = view.viewport().width() if isinstance(view, QAbstractItemView) else 300
        height = option.fontMetrics.height() + 2 * _PAD
        for text in (wrong_text(row), right_text(row)):
            height += _height(_lines(text, option.font, width - 2 * _SIDE))
        return QSize(width, height)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        row: ProblemRow = index.data(ROW_ROLE)
        state: QStyle.StateFlag = option.state
        area: QRect = option.rect
        if state & QStyle.StateFlag.State_Selected:
            painter.fillRect(area, self._theme.colour("selection"))
        inside = area.adjusted(_SIDE, _PAD, -_SIDE, -_PAD)
        line = QRect(inside.left(), inside.top(), inside.width(), option.fontMetrics.height())
        painter.save()
        self._head(painter, line, row)
        below = line.bottom() + 1
        for text, colour in ((wrong_text(row), "text"), (right_text(row), "secondary")):
            lines = _lines(text, option.font, inside.width())
            painter.setPen(self._theme.colour(colour))
            lines.draw(painter, QPointF(inside.left(), below))
            below += _height(lines)
        painter.restore()

    def _head(self, painter: QPainter, line: QRect, row: ProblemRow) -> None:
        where = "" if row.line is None else f"line {row.line}"
        room = painter.fontMetrics().horizontalAdvance(where)
        painter.setPen(self._theme.colour("secondary"))
        painter.drawText(line, Qt.AlignmentFlag.AlignRight, where)
        name = painter.fontMetrics().elidedText(
            f"✕ {shown(row.path) or 'the file'}", Qt.TextElideMode.ElideMiddle, line.width() - room - _SIDE
        )
        painter.setPen(self._theme.colour("bad"))
        painter.drawText(line, Qt.AlignmentFlag.AlignLeft, name)


def _lines(text: str, font: QFont, width: int) -> QTextLayout:
    """`text` on lines that end between words, or within one that is longer than a line."""
    layout = QTextLayout(shown(text).replace("\n", "\u2028"), font)
    option = QTextOption()
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    layout.setTextOption(option)
    layout.beginLayout()
    below = 0.0
    line = layout.createLine()
    while line.isValid():
        line.setLineWidth(max(40, width))
        line.setPosition(QPointF(0, below))
        below += line.height()
        line = layout.createLine()
    layout.endLayout()
    return layout


def _height(lines: QTextLayout) -> int:
    return ceil(lines.boundingRect().height())


def wrong_text(row: ProblemRow) -> str:
    """What is wrong, and in which other file where it is in one."""
    return (f"{row.file}: {row.wrong}" if row.file else row.wrong)[:2000]


def right_text(row: ProblemRow) -> str:
    """What would be right."""
    return f"→ {row.right}"[:2000]
