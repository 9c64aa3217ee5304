"""Lists and trees of rows: a frame around the current row, and colours kept when selected."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPalette
from PySide6.QtWidgets import (
    QAbstractItemView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTreeView,
    QWidget,
)

from torchdeck_app.theme.theme import Theme

# Cells that keep their colour in a selected row.

_TOWARDS_TEXT = 0.3
"""Share of the text colour in that of a selected cell, whose background is closer to it than the list's."""


class InkDelegate(QStyledItemDelegate):
    """Delegate that draws a selected cell in its model's colour (ForegroundRole) instead of Qt's single
    one.
    """

    def initStyleOption(  # noqa: N802 - Qt's name
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().initStyleOption(option, index)
        ink = index.data(Qt.ItemDataRole.ForegroundRole)
        if isinstance(ink, QColor | QBrush):
            palette = QPalette(option.palette)
            role = QPalette.ColorRole.HighlightedText
            palette.setColor(role, selected_ink(QBrush(ink).color(), palette.color(role)))
            option.palette = palette


def selected_ink(ink: QColor, text: QColor) -> QColor:
    """Return the colour of a coloured text in a selected row, whose other texts have the colour `text`."""
    channels = zip(ink.getRgbF()[:3], text.getRgbF()[:3], strict=True)  # type: ignore[index]  # stubs say object
    return QColor.fromRgbF(*(one + (other - one) * _TOWARDS_TEXT for one, other in channels))


class RowDelegate(InkDelegate):
    """Delegate that draws cells without a focus frame: the row has one."""

    def initStyleOption(  # noqa: N802 - Qt's name
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().initStyleOption(option, index)
        option.state &= ~QStyle.StateFlag.State_HasFocus


class RowTree(QTreeView):
    """Tree whose rows are selected whole and are not editable."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setItemDelegate(RowDelegate(self))

    def currentChanged(  # noqa: N802 - Qt's name
        self, current: QModelIndex | QPersistentModelIndex, previous: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Repaint whole rows, as the focus frame spans them and Qt repaints only a cell."""
        super().currentChanged(current, previous)
        self.viewport().update()

    def drawRow(  # noqa: N802 - Qt's name
        self, painter: QPainter, options: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Draw a row, with a frame if it is current; Qt's own frame would overlap its text."""
        super().drawRow(painter, options, index)
        current = self.currentIndex()
        if self.hasFocus() and index.row() == current.row() and index.parent() == current.parent():
            painter.setPen(self._theme.colour("accent"))
            painter.drawRect(options.rect.adjusted(0, 0, -1, -1))
