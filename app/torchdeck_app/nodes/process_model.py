"""The busiest processes of a machine as a table."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from torchdeck.nodes.activity import ProcessActivity
from torchdeck.quantities import size
from torchdeck.shown_text import shown
from torchdeck_app.widgets.tooltip import plain_tip

COLUMNS = ("Process", "PID", "User", "CPU", "Memory", "Run")
_NUMBERS = (1, 3, 4)
Index = QModelIndex | QPersistentModelIndex


class ProcessModel(QAbstractTableModel):
    """What is selected follows its process, wherever that comes to stand."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: tuple[ProcessActivity, ...] = ()

    def show_processes(self, rows: tuple[ProcessActivity, ...]) -> None:
        """Show these."""
        if rows == self._rows:
            return
        self._drop({row.pid for row in rows})
        self._append(rows)
        self._put_in_order(rows)

    def process(self, row: int) -> ProcessActivity:
        """What stands in a row."""
        return self._rows[row]

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008 - Qt's signature
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008 - Qt's signature
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is Qt.Orientation.Vertical:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return COLUMNS[section]
        return _alignment(section) if role == Qt.ItemDataRole.TextAlignmentRole else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row = self._rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            texts = (row.name, str(row.pid), row.user, f"{row.cpu:.0f} %", size(row.resident), row.run_id)
            return shown(texts[index.column()])
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(index.column())
        if role == Qt.ItemDataRole.ToolTipRole:
            tips = {3: f"{row.cpu:.1f} % of one core", 4: f"{row.resident:,} bytes resident", 5: row.run_id}
            return plain_tip(tips.get(index.column(), ""))
        return None

    def _drop(self, kept: set[int]) -> None:
        """Take the rows away whose process is not among `kept`."""
        for at in range(len(self._rows) - 1, -1, -1):
            if self._rows[at].pid not in kept:
                self.beginRemoveRows(QModelIndex(), at, at)
                self._rows = (*self._rows[:at], *self._rows[at + 1 :])
                self.endRemoveRows()

    def _append(self, rows: tuple[ProcessActivity, ...]) -> None:
        """Put those of `rows` whose process has no row yet behind the others."""
        there = {row.pid for row in self._rows}
        new = [row for row in rows if row.pid not in there]
        if new:
            self.beginInsertRows(QModelIndex(), len(self._rows), len(self._rows) + len(new) - 1)
            self._rows = (*self._rows, *new)
            self.endInsertRows()

    def _put_in_order(self, rows: tuple[ProcessActivity, ...]) -> None:
        """Of the same processes; what views remember of a row goes with its process."""
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        places = {row.pid: at for at, row in enumerate(rows)}
        after = [self.index(places[self._rows[index.row()].pid], index.column()) for index in before]
        self._rows = rows
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()


def _alignment(column: int) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column in _NUMBERS else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
