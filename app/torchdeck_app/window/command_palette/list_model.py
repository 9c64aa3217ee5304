"""The lines of the command palette, as a model of Qt, and how one is drawn."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter
from PySide6.QtWidgets import QListView, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from torchdeck.shown_text import shown
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.window.command_palette.items import PaletteItem

Index = QModelIndex | QPersistentModelIndex
Line = tuple[PaletteItem, tuple[int, ...]]
_ROLE = Qt.ItemDataRole.UserRole
_SIGN = 3 * GRID
"""Width kept for a run's sign, so that all texts begin in one column."""


class PaletteModel(QAbstractListModel):
    """What was found; read aloud as one sentence a line."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._lines: list[Line] = []

    def show_lines(self, lines: list[Line]) -> None:
        """Show these instead."""
        self.beginResetModel()
        self._lines = lines
        self.endResetModel()

    def item(self, row: int) -> PaletteItem:
        """What is in a row."""
        return self._lines[row][0]

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802 - as Qt has it
        return 0 if parent.isValid() else len(self._lines)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        item, _ = line = self._lines[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return item.text
        if role == Qt.ItemDataRole.AccessibleTextRole:
            state = "" if item.look is None else item.look.word
            return ", ".join(part for part in (item.text, state, item.detail, item.shortcut) if part)
        return line if role == _ROLE else None


class PaletteDelegate(QStyledItemDelegate):
    """Draws sign, text with the letters that fit, place and shortcut."""

    def __init__(self, theme: Theme, view: QListView) -> None:
        super().__init__(view)
        self._theme = theme
        self._view = view

    def sizeHint(self, option: QStyleOptionViewItem, _index: Index) -> QSize:  # noqa: N802 - Qt's name
        height: int = option.fontMetrics.height()
        return QSize(0, height + 2 * GRID - 2)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        item, positions = index.data(_ROLE)
        colours = self._theme.palette
        area: QRect = option.rect
        painter.save()
        if index.row() == self._view.currentIndex().row():
            painter.fillRect(area, QColor(colours.selection))
        inside = area.adjusted(GRID, 0, -GRID, 0)
        metrics = painter.fontMetrics()
        if item.look is not None:
            painter.setPen(QColor(item.look.rgb(colours)))
            painter.drawText(inside, Qt.AlignmentFlag.AlignVCenter, item.look.sign)
        right = inside.right()
        for text, colour in ((item.shortcut, colours.text), (item.detail, colours.secondary)):
            if text:
                width = metrics.horizontalAdvance(text)
                painter.setPen(QColor(colour))
                place = QRect(right - width, inside.top(), width + 1, inside.height())
                painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, text)
                right -= width + 2 * GRID
        inside.setLeft(inside.left() + _SIGN)
        inside.setRight(right)
        self._draw_text(painter, inside, item.text, set(positions))
        painter.restore()

    def _draw_text(self, painter: QPainter, area: QRect, text: str, fitting: set[int]) -> None:
        """Letters that fit in the accent; runs of letters in one piece, so that kerning stays."""
        text = painter.fontMetrics().elidedText(shown(text), Qt.TextElideMode.ElideRight, area.width())
        metrics = QFontMetrics(painter.font())
        start = 0
        while start < len(text):
            end = start + 1
            while end < len(text) and (end in fitting) == (start in fitting):
                end += 1
            piece = text[start:end]
            colour = self._theme.palette.accent if start in fitting else self._theme.palette.text
            painter.setPen(QColor(colour))
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine, piece)
            area.setLeft(area.left() + metrics.horizontalAdvance(piece))
            start = end
