"""Table of the queue; its selection follows the entries."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QItemSelectionModel, QModelIndex, Qt, Signal
from PySide6.QtWidgets import QAbstractItemView, QWidget

from torchdeck.use_cases.queue.listing import ListedEntry
from torchdeck_app.queue.entry_model import COLUMNS, DETAILS, EntryModel
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.row_tree import RowTree

_WIDTHS = (56, 64, 216, 112, 176, 120, 72)
"""Widths of the columns in pixels; details have the rest."""


class EntryTable(RowTree):
    """Entries in their order."""

    chosen_changed = Signal()
    """Emitted if other entries are selected, or a selected one has changed."""
    run_asked = Signal(str)
    """Emitted with the id of a run to open."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.entries = EntryModel(theme, self)
        self._is_changing = self._is_dragging = False
        self._later: Sequence[ListedEntry] | None = None
        self.setModel(self.entries)
        self.setAccessibleName("Entries of the queue")
        self.setRootIsDecorated(False)
        self.setUniformRowHeights(True)
        self.setAllColumnsShowFocus(True)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        self.setDragDropOverwriteMode(False)
        self.setDropIndicatorShown(True)
        self.header().setSectionsMovable(False)
        self.header().setHighlightSections(False)
        self.header().setMinimumSectionSize(48)
        for column, width in enumerate(_WIDTHS):
            self.setColumnWidth(column, width)
        self.header().setStretchLastSection(True)
        assert len(_WIDTHS) == DETAILS == len(COLUMNS) - 1  # noqa: S101 - the last one is stretched
        self.selectionModel().selectionChanged.connect(self._choose)
        self.activated.connect(self._activate)

    @property
    def chosen(self) -> list[ListedEntry]:
        """Return the selected entries, in their order."""
        rows = sorted(index.row() for index in self.selectionModel().selectedRows())
        return [self.entries.rows[row] for row in rows]

    def show_entries(self, rows: Sequence[ListedEntry]) -> None:
        """Show these; the selection stays with its entries. During a drag they are shown after it."""
        if self._is_dragging:
            self._later = rows
            return
        chosen = {each.entry.id for each in self.chosen}
        current = self.currentIndex().row()
        current_id = self.entries.rows[current].entry.id if 0 <= current < len(self.entries.rows) else ""
        self._is_changing = True
        self.entries.show_entries(rows)
        self._select(chosen, current_id)
        self._is_changing = False
        self.chosen_changed.emit()

    def startDrag(self, actions: Qt.DropAction) -> None:  # noqa: N802 - Qt's name
        """Leave rows where they are while one of them is dragged."""
        self._is_dragging = True
        try:
            super().startDrag(actions)
        finally:
            self._is_dragging = False
        if self._later is not None:
            rows, self._later = self._later, None
            self.show_entries(rows)

    def _select(self, ids: set[str], current: str) -> None:
        model = self.selectionModel()
        flags = QItemSelectionModel.SelectionFlag.Select | QItemSelectionModel.SelectionFlag.Rows
        for row, listed in enumerate(self.entries.rows):
            index = self.entries.index(row, 0)
            if listed.entry.id == current and self.currentIndex().row() != row:
                model.setCurrentIndex(index, QItemSelectionModel.SelectionFlag.NoUpdate)
            if listed.entry.id in ids and not model.isRowSelected(row, QModelIndex()):
                model.select(index, flags)

    def _choose(self) -> None:
        if not self._is_changing:
            self.chosen_changed.emit()

    def _activate(self, index: QModelIndex) -> None:
        run = self.entries.rows[index.row()].entry.run
        if run:
            self.run_asked.emit(run)
