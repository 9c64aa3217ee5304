"""Grid of checks as a Qt model."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QColor

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.shown_text import shown
from torchdeck_app.launch.check.appearance import LOOKS
from torchdeck_app.launch.check.grid import Grid
from torchdeck_app.launch.check.rows import CheckRow
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip

Index = QModelIndex | QPersistentModelIndex
_GROUND = {"failed": 40, "warning": 28}
"""Background opacity of 255; passed checks have none, so that the others stand out."""
_NOT_ASKED = "was not looked at"


class GridModel(QAbstractTableModel):
    """Table model with one row per check and one column per node."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._grid = Grid((), (), {}, ())

    def show_grid(self, grid: Grid) -> None:
        """Show another grid."""
        self.beginResetModel()
        self._grid = grid
        self.endResetModel()

    def rows_at(self, index: Index) -> tuple[CheckRow, ...]:
        """Return the results of a cell."""
        if not index.isValid():
            return ()
        return self._grid.cells.get((self._grid.checks[index.row()], self._grid.nodes[index.column()]), ())

    def title_at(self, index: Index) -> str:
        """Return the check and node of a cell."""
        if not index.isValid():
            return ""
        return f"{self._grid.checks[index.row()]} on {shown_node(self._grid.nodes[index.column()])}"

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802 - as Qt has it
        return 0 if parent.isValid() else len(self._grid.checks)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802
        return 0 if parent.isValid() else len(self._grid.nodes)

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        names = self._grid.nodes if orientation is Qt.Orientation.Horizontal else self._grid.checks
        if section >= len(names):
            return None
        name = shown(shown_node(names[section]))
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip(name)
        return name if role == Qt.ItemDataRole.DisplayRole else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        rows = self.rows_at(index)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignCenter
        if role == Qt.ItemDataRole.AccessibleTextRole:
            said = f"{LOOKS[rows[0].status].word}: {in_words(rows)}" if rows else _NOT_ASKED
            return shown(f"{self.title_at(index)}: {said}")
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip(f"{self.title_at(index)}: {in_words(rows) if rows else _NOT_ASKED}")
        if not rows:
            return {Qt.ItemDataRole.DisplayRole: "·", Qt.ItemDataRole.ForegroundRole: self._ink("quiet")}.get(
                Qt.ItemDataRole(role)
            )
        look = LOOKS[rows[0].status]
        if role == Qt.ItemDataRole.DisplayRole:
            return look.sign
        if role == Qt.ItemDataRole.ForegroundRole:
            return self._ink(look.colour)
        if role == Qt.ItemDataRole.BackgroundRole and rows[0].status in _GROUND:
            ground = self._ink(look.colour)
            ground.setAlpha(_GROUND[rows[0].status])
            return ground
        return None

    def _ink(self, name: str) -> QColor:
        return QColor(self._theme.colour(name))


def shown_node(name: str) -> str:
    """Return the node's name, or the words for this machine."""
    return "this machine" if name == LOCALHOST else name


def in_words(rows: tuple[CheckRow, ...]) -> str:
    """Return results and fixes, one per line."""
    return "\n".join(f"{row.what}\n→ {row.fix}" if row.fix else row.what for row in rows)
