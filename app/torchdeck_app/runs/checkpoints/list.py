"""Checkpoints as rows; only changed cells are written, so selection and scroll position stay."""

from __future__ import annotations

import time

from PySide6.QtGui import QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QWidget

from torchdeck.runs.folders.checkpoints import RunCheckpoint
from torchdeck.shown_text import shown
from torchdeck_app.runs.checkpoints.rows import HEADINGS, Verdicts, cells, tooltip
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.widgets.row_tree import RowTree

_COLOURS = {"✓": "good", "✕": "bad", "◐": "busy", "○": "quiet"}
_STATE = HEADINGS.index("State")
_WIDEST_STATE = "✓ verified 88 min ago"


class CheckpointList(RowTree):
    """Newest first."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._rows: tuple[RunCheckpoint, ...] = ()
        self.setAccessibleName("Checkpoints")
        self.setRootIsDecorated(False)
        self.setUniformRowHeights(True)
        self._model = QStandardItemModel(0, len(HEADINGS), self)
        self._model.setHorizontalHeaderLabels(list(HEADINGS))
        self.setModel(self._model)

    @property
    def selected(self) -> RunCheckpoint | None:
        """Return the selected checkpoint."""
        rows = self.selectionModel().selectedRows()
        return self._rows[rows[0].row()] if rows and rows[0].row() < len(self._rows) else None

    def set_rows(self, rows: tuple[RunCheckpoint, ...]) -> None:
        """Show these checkpoints; the selection is kept, else the newest complete one is selected."""
        chosen = self.selected
        self._rows = rows
        kept = chosen.info.path if chosen is not None else None
        newest = next((at for at, row in enumerate(rows) if row.info.complete), 0)
        at = next((at for at, row in enumerate(rows) if row.info.path == kept), newest)
        self._model.setRowCount(len(rows))
        if rows:
            self.setCurrentIndex(self._model.index(at, 0))

    def write(self, verdicts: Verdicts, *, is_live: bool) -> None:
        """Update all cells of all rows."""
        now = time.time()
        fresh = self._model.item(0, 0) is None
        for at, row in enumerate(self._rows):
            for column, text in enumerate(cells(row, now, verdicts, is_live=is_live)):
                item = self._item(at, column)
                item.setText(shown(text))
                item.setToolTip(plain_tip(tooltip(row, verdicts)))
                if column == _STATE:
                    item.setForeground(self._theme.colour(_COLOURS.get(text[:1], "text")))
        if fresh and self._rows:
            for column in range(len(HEADINGS) - 1):  # the last column takes the rest
                self.resizeColumnToContents(column)
                self.setColumnWidth(column, self.columnWidth(column) + GRID)
            widest = self.fontMetrics().horizontalAdvance(_WIDEST_STATE) + 2 * GRID
            self.setColumnWidth(_STATE, max(self.columnWidth(_STATE), widest))

    def _item(self, row: int, column: int) -> QStandardItem:
        """Return the cell; create it if it does not exist yet."""
        found: QStandardItem | None = self._model.item(row, column)
        if found is None:
            found = QStandardItem()
            self._model.setItem(row, column, found)
        return found
