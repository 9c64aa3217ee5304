"""Lists and trees of rows: a line around the one the keyboard is in, colours kept where it is selected."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QAbstractItemView, QStyle, QStyleOptionViewItem, QTreeView, QWidget

from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.ink_delegate import InkDelegate


class RowDelegate(InkDelegate):
    """Cells without a frame of their own: the row has one."""

    def initStyleOption(  # noqa: N802 - Qt's name
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().initStyleOption(option, index)
        option.state &= ~QStyle.StateFlag.State_HasFocus


class RowTree(QTreeView):
    """Rows are selected whole, and not edited."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setItemDelegate(RowDelegate(self))

    def currentChanged(  # noqa: N802 - Qt's name
        self, current: QModelIndex | QPersistentModelIndex, previous: QModelIndex | QPersistentModelIndex
    ) -> None:
        """The line is around whole rows, of which Qt draws only a cell anew."""
        super().currentChanged(current, previous)
        self.viewport().update()

    def drawRow(  # noqa: N802 - Qt's name
        self, painter: QPainter, options: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """With a line around the row that the keyboard is in; Qt's own would lie over its text."""
        super().drawRow(painter, options, index)
        current = self.currentIndex()
        if self.hasFocus() and index.row() == current.row() and index.parent() == current.parent():
            painter.setPen(self._theme.colour("accent"))
            painter.drawRect(options.rect.adjusted(0, 0, -1, -1))
