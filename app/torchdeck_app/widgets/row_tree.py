"""Lists and trees of rows: a frame around the current row, and colours kept when selected."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QAbstractItemView, QStyle, QStyleOptionViewItem, QTreeView, QWidget

from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.ink_delegate import InkDelegate


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
