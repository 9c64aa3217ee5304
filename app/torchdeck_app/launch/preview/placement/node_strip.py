"""Strip with the inventory's nodes and groups as chips that can be added to the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QMimeData,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QDrag,
    QFontMetrics,
    QKeyEvent,
    QPainter,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QListView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from torchdeck.shown_text import shown
from torchdeck_app.launch.preview.placement.run_nodes import InventoryItem
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID

_HIGH = 3 * GRID
"""Height of a chip."""
_BETWEEN = GRID // 2
_ROWS = 2
"""Visible rows of chips; the others scroll."""
_WIDEST = 24 * GRID
_ADD = frozenset({Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space, Qt.Key.Key_Insert})
_REMOVE = frozenset({Qt.Key.Key_Delete, Qt.Key.Key_Backspace})


class NodeStrip(QListView):
    """List hidden while the inventory is empty. Items are dragged, double-clicked, or chosen by Enter or the
    menu.
    """

    add_asked = Signal(str)
    """Emitted with the name of a node or group to add to the run."""
    remove_asked = Signal(str)
    """Emitted with the name of a node or group to remove from the run."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chips = InventoryModel(self)
        self._theme = theme
        self.menu: QMenu | None = None
        """The menu opened last."""
        self.setModel(self._chips)
        self.setItemDelegate(_Chip(theme, self))
        self.setAccessibleName("Nodes of the node inventory")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setStyleSheet("QListView { background: transparent; border: 0; outline: 0; }")
        self.setFlow(QListView.Flow.LeftToRight)
        self.setWrapping(True)
        self.setResizeMode(QListView.ResizeMode.Adjust)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragOnly)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMouseTracking(True)
        self.doubleClicked.connect(lambda index: self._add(index.data(ITEM_ROLE)))
        theme.changed.connect(self.viewport().update)
        self.hide()

    @property
    def items(self) -> tuple[InventoryItem, ...]:
        """Return what is shown now."""
        return self._chips.items

    def show_items(self, items: tuple[InventoryItem, ...]) -> None:
        """Show these items; hide if there are none."""
        self._chips.show_items(items)
        self.setVisible(bool(items))
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        item = self.currentIndex().data(ITEM_ROLE)
        if item is not None and event.key() in _ADD:
            self._add(item)
        elif item is not None and event.key() in _REMOVE:
            self.remove_asked.emit(item.name)
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        by_key = event.reason() is QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if by_key else self.indexAt(event.pos())
        item = index.data(ITEM_ROLE)
        if item is None:
            return
        self.menu = menu = QMenu(self)
        menu.aboutToHide.connect(menu.deleteLater)
        add = menu.addAction("&Add to the run", lambda: self.add_asked.emit(item.name))
        add.setEnabled(not item.is_used)
        remove = menu.addAction("&Remove from the run", lambda: self.remove_asked.emit(item.name))
        remove.setEnabled(item.used > 0)
        menu.popup(
            self.viewport().mapToGlobal(self.visualRect(index).bottomLeft()) if by_key else event.globalPos()
        )

    def startDrag(self, actions: Qt.DropAction) -> None:  # noqa: N802
        """Drag a picture of the chip itself instead of its row."""
        index = self.currentIndex()
        if not index.flags() & Qt.ItemFlag.ItemIsDragEnabled:
            return
        drag = QDrag(self)
        drag.setMimeData(self._chips.mimeData([index]))
        area = self.visualRect(index)
        drag.setPixmap(self.viewport().grab(area))
        drag.setHotSpot(QPoint(GRID, area.height() // 2))
        drag.exec(actions & ~Qt.DropAction.MoveAction | Qt.DropAction.CopyAction, Qt.DropAction.CopyAction)

    def _add(self, item: InventoryItem) -> None:
        self.add_asked.emit(item.name)

    def _fit(self) -> None:
        """Fit the height to the chips, at most `_ROWS` rows: the grid has the rest."""
        self.doItemsLayout()
        last = self._chips.index(len(self.items) - 1) if self.items else None
        bottom = 0 if last is None else self.visualRect(last).bottom() + 1 + self.verticalOffset()
        rows = max(1, -(-bottom // (_HIGH + _BETWEEN)))
        wanted = min(rows, _ROWS) * (_HIGH + _BETWEEN)
        if wanted != self.height():
            self.setFixedHeight(wanted)


class _Chip(QStyledItemDelegate):
    """Delegate for a chip with name and symbol: + available, ✓ in the run."""

    def __init__(self, theme: Theme, view: QListView) -> None:
        super().__init__(view)
        self._theme, self._view = theme, view
        self._font, self._small = font(Type.BODY), font(Type.SMALL)

    def sizeHint(self, _option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802 - Qt's name
        item: InventoryItem = index.data(ITEM_ROLE)
        width = QFontMetrics(self._font).horizontalAdvance(f"{_sign(item)} {item.name}")
        if detail := _detail(item):
            width += QFontMetrics(self._small).horizontalAdvance(detail) + GRID
        return QSize(min(width + 2 * GRID, _WIDEST) + _BETWEEN, _HIGH + _BETWEEN)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        item: InventoryItem = index.data(ITEM_ROLE)
        colours = self._theme.palette
        state: QStyle.StateFlag = option.state
        area = QRect(option.rect).adjusted(0, 0, -_BETWEEN - 1, -_BETWEEN - 1)
        has_key = self._view.hasFocus() and index == self._view.currentIndex()
        hovered = bool(state & QStyle.StateFlag.State_MouseOver)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        border = colours.accent if has_key else colours.line if item.is_used else colours.border
        painter.setPen(QPen(QColor(border), 2 if has_key else 1))
        painter.setBrush(
            QColor(colours.window if item.is_used else colours.raised if hovered else colours.surface)
        )
        painter.drawRoundedRect(area, _HIGH / 2 - 1, _HIGH / 2 - 1)
        inside = area.adjusted(GRID, 0, -GRID, 0)
        if detail := _detail(item):
            painter.setFont(self._small)
            painter.setPen(QColor(colours.secondary))
            painter.drawText(inside, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, detail)
            inside.setRight(inside.right() - painter.fontMetrics().horizontalAdvance(detail) - GRID)
        painter.setFont(self._font)
        painter.setPen(QColor(colours.secondary if item.is_used else colours.text))
        text = painter.fontMetrics().elidedText(
            f"{_sign(item)} {shown(item.name)}", Qt.TextElideMode.ElideRight, inside.width() + 2
        )
        painter.drawText(inside.adjusted(0, 0, 2, 0), Qt.AlignmentFlag.AlignVCenter, text)
        painter.restore()


def _sign(item: InventoryItem) -> str:
    return "✓" if item.is_used else "◐" if item.used else "+"


def _detail(item: InventoryItem) -> str:
    """Return how many nodes a group has, and how many of them are in the run."""
    if not item.is_group:
        return ""
    return f"{item.used} of {len(item.nodes)}" if 0 < item.used < len(item.nodes) else f"{len(item.nodes)}"


# Qt model of the node inventory's items, each draggable by its name.

Index = QModelIndex | QPersistentModelIndex
MIME = "application/x-torchdeck-book-node"
"""MIME type of a dragged name, as UTF-8."""
ITEM_ROLE = Qt.ItemDataRole.UserRole
"""Role of the InventoryItem."""
_SHOWN = 12
"""Maximum number of nodes in a group's tooltip."""


class InventoryModel(QAbstractListModel):
    """Model in which items that are already in the run are not draggable."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._items: tuple[InventoryItem, ...] = ()

    @property
    def items(self) -> tuple[InventoryItem, ...]:
        return self._items

    def show_items(self, items: tuple[InventoryItem, ...]) -> None:
        """Show these items; the selection stays if the names are the same."""
        is_same = [item.name for item in items] == [item.name for item in self._items]
        if is_same and items:
            self._items = items
            self.dataChanged.emit(self.index(0), self.index(len(items) - 1))
            return
        self.beginResetModel()
        self._items = items
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802 - as Qt has it
        return 0 if parent.isValid() else len(self._items)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        item = self._items[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return shown(item.name)
        if role == ITEM_ROLE:
            return item
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{item.name}, {_kind(item)}, {item.state}"
        return plain_tip(_tip(item)) if role == Qt.ItemDataRole.ToolTipRole else None

    def flags(self, index: Index) -> Qt.ItemFlag:
        flags = super().flags(index)
        dragged = index.isValid() and not self._items[index.row()].is_used
        return flags | Qt.ItemFlag.ItemIsDragEnabled if dragged else flags

    def mimeTypes(self) -> list[str]:  # noqa: N802 - Qt's name
        return [MIME]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:  # noqa: N802 - Qt's name
        made = QMimeData()
        if indexes:
            made.setData(MIME, self._items[indexes[0].row()].name.encode())
        return made


def dragged_name(data: QMimeData) -> str:
    """Return the dragged name; empty if it is not from the node inventory."""
    return bytes(data.data(MIME).data()).decode(errors="replace") if data.hasFormat(MIME) else ""


def _kind(item: InventoryItem) -> str:
    return f"group of {len(item.nodes)}" if item.is_group else "node"


def _tip(item: InventoryItem) -> str:
    where = item.where
    if item.is_group and len(item.nodes) > _SHOWN:
        where = f"{', '.join(item.nodes[:_SHOWN])} and {len(item.nodes) - _SHOWN} more"
    act = (
        "Press Delete to remove it from the run" if item.is_used else "Drag it onto the grid, or press Enter"
    )
    return f"{item.name}: {where}\n{_kind(item)}, {item.state}\n{act}"
