"""Table of the processes on one GPU."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from torchdeck.nodes.gpus.gpu_now import GpuProcess
from torchdeck.quantities import size
from torchdeck.shown_text import shown
from torchdeck_app.widgets.labels import plain_tip

COLUMNS = ("PID", "User", "Type", "GPU memory", "Run", "Command")
_WIDTHS = (84, 96, 84, 110, 240)
"""Widths of the first columns in pixels; the command has the rest."""
_NUMBERS = (0, 3)
_MOST_ROWS = 8
"""Rows that are visible without scrolling."""
Index = QModelIndex | QPersistentModelIndex


class GpuProcessModel(QAbstractTableModel):
    """Processes in the order of the driver; rows stay in place while the same processes are reported."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: tuple[GpuProcess, ...] = ()

    def show_processes(self, rows: tuple[GpuProcess, ...]) -> None:
        """Show these."""
        if rows == self._rows:
            return
        if [row.pid for row in rows] != [row.pid for row in self._rows]:
            self.beginResetModel()
            self._rows = rows
            self.endResetModel()
            return
        self._rows = rows
        self.dataChanged.emit(self.index(0, 0), self.index(len(rows) - 1, len(COLUMNS) - 1))

    def process(self, row: int) -> GpuProcess:
        """Return the process in a row."""
        return self._rows[row]

    def row_of(self, pid: int) -> int | None:
        """Return the row of a process; None if it is gone."""
        return next((row for row, process in enumerate(self._rows) if process.pid == pid), None)

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
            memory = "–" if row.memory is None else size(row.memory)
            kind = "graphics" if row.graphics else "compute"
            whose, run = row.user or "unknown", row.run_id or "–"
            return shown((str(row.pid), whose, kind, memory, run, row.command or "unknown")[index.column()])
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(index.column())
        if role == Qt.ItemDataRole.ToolTipRole:
            exact = "" if row.memory is None else f"{row.memory:,} bytes"
            return plain_tip({3: exact, 4: row.run_id, 5: row.command}.get(index.column(), ""))
        return None


def _alignment(column: int) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column in _NUMBERS else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter


class GpuProcessTable(QTableView):
    """The table; its selection follows a process while it lives."""

    process_chosen = Signal()
    """Emitted if another process, or none, is selected."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.processes = GpuProcessModel(self)
        self._pid: int | None = None
        self._is_changing = False
        self.setModel(self.processes)
        self.setAccessibleName("Processes on this GPU")
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        for column, width in enumerate(_WIDTHS):
            self.setColumnWidth(column, width)
        header.setSectionResizeMode(len(COLUMNS) - 1, QHeaderView.ResizeMode.Stretch)
        self.selectionModel().selectionChanged.connect(self._choose)

    @property
    def chosen(self) -> GpuProcess | None:
        """Return the selected process."""
        rows = self.selectionModel().selectedRows()
        return self.processes.process(rows[0].row()) if rows else None

    def show_processes(self, rows: tuple[GpuProcess, ...]) -> None:
        """Show these."""
        self._is_changing = True
        self.processes.show_processes(rows)
        row = None if self._pid is None else self.processes.row_of(self._pid)
        if row is None:
            self.clearSelection()
        elif not self.selectionModel().isRowSelected(row):
            self.selectRow(row)
        self._is_changing = False
        self._choose()
        height = self.verticalHeader().defaultSectionSize()
        shown_rows = min(_MOST_ROWS, max(2, len(rows)))
        self.setFixedHeight(self.horizontalHeader().sizeHint().height() + shown_rows * height + 4)

    def _choose(self) -> None:
        if self._is_changing:
            return
        chosen = self.chosen
        self._pid = None if chosen is None else chosen.pid
        self.process_chosen.emit()
