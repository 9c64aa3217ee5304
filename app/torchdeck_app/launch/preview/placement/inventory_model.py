"""Qt model of the node inventory's items, each draggable by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractListModel, QMimeData, QModelIndex, QObject, QPersistentModelIndex, Qt

from torchdeck.shown_text import shown
from torchdeck_app.launch.preview.placement.inventory_items import InventoryItem
from torchdeck_app.widgets.labels import plain_tip

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
    act = "Delete takes it out of the run" if item.is_used else "Drag it onto the board, or press Enter"
    return f"{item.name}: {where}\n{_kind(item)}, {item.state}\n{act}"
