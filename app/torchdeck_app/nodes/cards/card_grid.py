"""Cards beside and below each other: as many columns as have room."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QWidget

from torchdeck_app.widgets.panel import GRID

LEAST = 360
"""Pixels of a card."""
MOST_COLUMNS = 6


class CardGrid(QWidget):
    """The order is that of the cards, line by line; all columns are equally wide."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cards: tuple[QWidget, ...] = ()
        self._columns = 0
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(2 * GRID)

    def show_cards(self, cards: Sequence[QWidget]) -> None:
        """Show these, in this order; those that are no longer among them are deleted."""
        for old in self._cards:
            if old not in cards:
                self._grid.removeWidget(old)
                old.hide()
                old.deleteLater()
        self._cards = tuple(cards)
        self._lay(max(1, self._columns))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        room = event.size().width() + 2 * GRID
        columns = max(1, min(MOST_COLUMNS, room // (LEAST + 2 * GRID)))
        if columns != self._columns:
            self._lay(columns)

    def _lay(self, columns: int) -> None:
        self._columns = columns
        lines = -(-len(self._cards) // columns)
        for at, card in enumerate(self._cards):
            self._grid.addWidget(card, at // columns, at % columns)
        for column in range(MOST_COLUMNS):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)
        for line in range(self._grid.rowCount()):
            self._grid.setRowStretch(line, 0)
        self._grid.setRowStretch(lines, 1)
