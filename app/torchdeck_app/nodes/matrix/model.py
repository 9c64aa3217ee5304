"""The connection matrix as a table: who connects stands in the row, to whom in the column."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from torchdeck.quantities import size
from torchdeck.shown_text import shown
from torchdeck_app.nodes.matrix.measuring import Measured
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.tooltip import plain_tip

Index = QModelIndex | QPersistentModelIndex
NONE = Measured(())


class MatrixModel(QAbstractTableModel):
    """A cell has latency and bandwidth, or a sign that there is no way, and the reason in its tooltip."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._found = NONE

    @property
    def found(self) -> Measured:
        """What is shown."""
        return self._found

    def show(self, found: Measured) -> None:
        """Show this."""
        self.beginResetModel()
        self._found = found
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008 - Qt's signature
        return 0 if parent.isValid() else len(self._found.names)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008 - Qt's signature
        return 0 if parent.isValid() else len(self._found.names)

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        name = self._found.names[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return shown(name if orientation is Qt.Orientation.Vertical else f"→ {name}")
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip(f"{name}, {self._found.addresses.get(name, 'its address is not known')}")
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        source, target = self._found.names[index.row()], self._found.names[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return cell_words(self._found, source, target)
        if role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleDescriptionRole):
            words = self.sentence(source, target)
            return plain_tip(words) if role == Qt.ItemDataRole.ToolTipRole else words
        if role == Qt.ItemDataRole.ForegroundRole and self._found.reason(source, target):
            return self._theme.colour("bad")
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignCenter
        return None

    def sentence(self, source: str, target: str) -> str:
        """One cell in words."""
        reason = self._found.reason(source, target)
        if reason:
            return reason
        way = self._found.ways.get((source, target))
        if way is None:
            return f"{source} itself"
        latency = "" if way.latency is None else f", {way.latency * 1e3:.2f} ms there and back"
        bandwidth = "" if way.bandwidth is None else f", {size(way.bandwidth)}/s"
        return f"{source} reaches {target} ({self._found.addresses[target]}){latency}{bandwidth}"


def cell_words(found: Measured, source: str, target: str) -> str:
    """What stands in a cell."""
    if found.reason(source, target):
        return "✕ no"
    way = found.ways.get((source, target))
    if way is None:
        return "–"
    latency = "" if way.latency is None else f"{way.latency * 1e3:.2g} ms"
    return f"{latency}\n{size(way.bandwidth)}/s" if way.bandwidth is not None else latency
