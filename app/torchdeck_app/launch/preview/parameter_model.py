"""Qt model of the parameter tree, which provides only what is visible."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from torchdeck.plan.preview.preview import percent
from torchdeck.plan.preview.rank_preview import HeldRows
from torchdeck.quantities import counted, size
from torchdeck.shown_text import shown
from torchdeck_app.launch.preview.parameter_tree import (
    ROOT,
    ParameterTree,
    rows_text,
    shape_text,
    share_text,
    type_text,
)
from torchdeck_app.widgets.labels import plain_tip

Index = QModelIndex | QPersistentModelIndex
BAR = Qt.ItemDataRole.UserRole
"""Data role of column `ROWS`: begin and end of the rank's rows, as fractions of the whole."""
_NO_INDEX = QModelIndex()


class Column(IntEnum):
    """Column of the table."""

    NAME = 0
    SHAPE = 1
    TYPE = 2
    SIZE = 3
    ROWS = 4
    HELD = 5
    SHARE = 6


_COLUMNS = len(Column)
_RIGHT = (Column.SIZE, Column.SHARE, Column.HELD)


class ParameterModel(QAbstractItemModel):
    """Model of modules and tensors; an index carries the number of its node."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._tree: ParameterTree | None = None
        self._sizes = np.zeros(0, np.int64)
        self._held: HeldRows | None = None
        self._held_sizes = np.zeros(0, np.int64)
        self._visible: npt.NDArray[np.bool_] | None = None
        self._below: dict[int, tuple[int, ...]] = {}
        self._rows_seen: dict[int, int] = {}

    @property
    def tree(self) -> ParameterTree | None:
        return self._tree

    @property
    def held(self) -> HeldRows | None:
        """Return what the chosen rank holds; None if that is not by rows."""
        return self._held

    def set_tree(self, tree: ParameterTree) -> None:
        """Replace all parameters."""
        self.beginResetModel()
        self._tree = tree
        self._filter(None)
        self._sizes = tree.sums(tree.table.sizes)
        self._held, self._held_sizes = None, np.zeros(0, np.int64)
        self.endResetModel()

    def set_held(self, held: HeldRows | None) -> None:
        """Set what a rank holds of each tensor; None if that is not by rows."""
        if self._tree is None:
            return
        self._held = held
        self._held_sizes = np.zeros(0, np.int64) if held is None else self._tree.sums(held.sizes)
        # for several indices views query all visible rows again
        last = self.rowCount() - 1
        if last >= 0:
            self.dataChanged.emit(self.index(0, Column.ROWS), self.index(last, Column.HELD))

    def set_visible(self, visible: npt.NDArray[np.bool_] | None) -> None:
        """Show only some nodes, shape (nodes,); a visible node's parents are visible too. None: all."""
        self.beginResetModel()
        self._filter(visible)
        self.endResetModel()

    def node(self, index: Index) -> int:
        """Return the node of `index`."""
        return index.internalId()  # 0, the root, for the invalid index

    def index_of(self, node: int) -> QModelIndex:
        """Return the index of a node, which must be visible."""
        if node == ROOT or self._tree is None:
            return QModelIndex()
        return self.createIndex(self._row(node), 0, node)

    def rowCount(self, parent: Index = _NO_INDEX) -> int:  # noqa: N802 - Qt's name
        if self._tree is None or parent.column() > 0:
            return 0
        return len(self._children(self.node(parent)))

    def columnCount(self, parent: Index = _NO_INDEX) -> int:  # noqa: ARG002, N802 - Qt's name
        return _COLUMNS

    def hasChildren(self, parent: Index = _NO_INDEX) -> bool:  # noqa: N802 - Qt's name
        # called for each of the opened rows; Qt's own version queries their number and columns
        if self._tree is None or parent.column() > 0:
            return False
        node = parent.internalId()
        # a module left by a search has something below that is left; the root may have nothing
        return bool(self._children(ROOT)) if node == ROOT else self._tree.has_children(node)

    def index(self, row: int, column: int, parent: Index = _NO_INDEX) -> QModelIndex:
        if self._tree is None:
            return QModelIndex()
        children = self._children(self.node(parent))
        if not 0 <= row < len(children) or not 0 <= column < _COLUMNS:
            return QModelIndex()
        return self.createIndex(row, column, children[row])

    def parent(self, index: Index = _NO_INDEX) -> QModelIndex:  # type: ignore[override]  # QObject's has no argument
        if self._tree is None or not index.isValid():
            return QModelIndex()
        return self.index_of(self._tree.parents[self.node(index)])

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(section)
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        return ("Name", "Shape", "Type", "Size", "Rows held", "Held", "Share")[section]

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        tree = self._tree
        if tree is None or not index.isValid():
            return None
        node, column = self.node(index), index.column()
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return shown(self._text(tree, node, column))
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(self._exact(tree, node, column))
            case Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(column)
            case Qt.ItemDataRole.UserRole if column == Column.ROWS:
                return self._bar(tree, node)
        return None

    def _children(self, node: int) -> tuple[int, ...]:
        if self._tree is None:
            return ()
        if node not in self._below:
            below = self._tree.children(node)
            if self._visible is not None:
                visible = self._visible
                below = tuple(child for child in below if visible[child])
                self._rows_seen.update((child, row) for row, child in enumerate(below))
            self._below[node] = below
        return self._below[node]

    def _filter(self, visible: npt.NDArray[np.bool_] | None) -> None:
        self._visible, self._below, self._rows_seen = visible, {}, {}

    def _row(self, node: int) -> int:
        if self._tree is None:
            return 0
        if self._visible is None:
            return int(self._tree.rows[node])
        if node not in self._rows_seen:
            self._children(self._tree.parents[node])
        return self._rows_seen[node]

    def _text(self, tree: ParameterTree, node: int, column: int) -> str:
        tensor = tree.tensor(node)
        match column:
            case Column.NAME:
                return tree.names[node]
            case Column.SHAPE:
                whole = counted(int(tree.end[node] - tree.first[node]), "tensor")
                return whole if tensor is None else shape_text(tensor)
            case Column.TYPE:
                return "" if tensor is None else type_text(tensor)
            case Column.SIZE:
                return size(int(self._sizes[node]))
            case Column.SHARE:
                return share_text(int(self._sizes[node]) / max(int(self._sizes[ROOT]), 1))
            case Column.ROWS:
                return self._rows(tree, node)
        return size(int(self._held_sizes[node])) if self._held is not None else "–"

    def _rows(self, tree: ParameterTree, node: int) -> str:
        held = self._held
        if held is None:
            return "not by rows"
        if tree.tensor(node) is None:
            whole = int(self._sizes[node])
            return percent(int(self._held_sizes[node]) / whole) if whole else "nothing"
        at = int(tree.first[node])
        return rows_text(int(held.first_row[at]), int(held.rows[at]), int(tree.table.lengths[at]))

    def _exact(self, tree: ParameterTree, node: int, column: int) -> str:
        if column == Column.SIZE:
            return f"{int(self._sizes[node]):,} bytes"
        if column == Column.HELD and self._held is not None:
            return f"{int(self._held_sizes[node]):,} bytes"
        if column == Column.SHARE:
            return f"{int(self._sizes[node]) / max(int(self._sizes[ROOT]), 1):.4%} of all parameters"
        if column == Column.NAME:
            tensor = tree.tensor(node)
            return tensor.name if tensor is not None else self._module(tree, node)
        return shown(self._text(tree, node, column))

    def _module(self, tree: ParameterTree, node: int) -> str:
        parts: list[str] = []
        while node != ROOT:
            parts.append(tree.names[node])
            node = tree.parents[node]
        return ".".join(reversed(parts))

    def _bar(self, tree: ParameterTree, node: int) -> tuple[float, float] | None:
        held = self._held
        if held is None:
            return None
        if tree.tensor(node) is None:
            whole = int(self._sizes[node])
            return (0.0, int(self._held_sizes[node]) / whole) if whole else None
        at = int(tree.first[node])
        length = int(tree.table.lengths[at])
        first, rows = int(held.first_row[at]), int(held.rows[at])
        return (first / length, (first + rows) / length) if length else None


def _alignment(column: int) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column in _RIGHT else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
