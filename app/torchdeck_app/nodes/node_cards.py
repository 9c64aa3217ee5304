"""Grid of all inventory nodes; if there are none, a hint how to add some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QPushButton,
    QScrollArea,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck_app.nodes.node_card import NodeCard
from torchdeck_app.nodes.node_sight import NodeSight
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID, EmptyState

_EMPTY = (
    "Each machine that you reach by SSH gets a card here, with its hardware, its GPUs' load and their "
    "owners. It needs only Python and, for training, torch."
)


class NodeGrid(QStackedWidget):
    """Grid with a card per node."""

    add_asked = Signal()
    import_asked = Signal()
    run_asked = Signal(str)
    help_asked = Signal(str)
    clean_asked = Signal(str)
    edit_asked = Signal(str)
    remove_asked = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.cards: dict[str, NodeCard] = {}
        self._grid = CardGrid()
        inside = QWidget()
        column = QVBoxLayout(inside)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.addWidget(self._grid)
        self.area = QScrollArea()
        self.area.setAccessibleName("Nodes of the node inventory")
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setWidgetResizable(True)
        self.area.setWidget(inside)
        self.empty = EmptyState(
            theme, "nodes", "No nodes yet", _EMPTY, button="Add a node …", pressed=self.add_asked.emit
        )
        self.empty.button.setToolTip("Add a node to the node inventory")
        self.import_button = QPushButton("Import from ~/.ssh/config …")
        self.import_button.setToolTip("Import the hosts of your SSH config as nodes")
        self.import_button.clicked.connect(self.import_asked)
        self.empty.add_second(self.import_button)
        self.addWidget(self.empty)
        self.addWidget(self.area)

    def show_entries(self, entries: Mapping[str, NodeEntry]) -> None:
        """Show the current nodes of the inventory."""
        for name, entry in entries.items():
            if name in self.cards:
                self.cards[name].show_entry(entry)
            else:
                self.cards[name] = self._made(name, entry)
        self.cards = {name: self.cards[name] for name in entries}
        self._grid.show_cards(list(self.cards.values()))
        self.setCurrentIndex(1 if entries else 0)

    def show_sights(self, sights: Sequence[NodeSight]) -> None:
        """Show new states."""
        for sight in sights:
            card = self.cards.get(sight.name)
            if card is not None:
                card.show_sight(sight)

    def _made(self, name: str, entry: NodeEntry) -> NodeCard:
        card = NodeCard(self._theme, name, entry)
        card.run_asked.connect(self.run_asked)
        card.help_asked.connect(self.help_asked)
        card.clean_asked.connect(self.clean_asked)
        card.edit_asked.connect(self.edit_asked)
        card.remove_asked.connect(self.remove_asked)
        return card


LEAST = 360
"""Minimum width of a card in pixels."""
MOST_COLUMNS = 6


class CardGrid(QWidget):
    """Grid that places cards line by line in columns of equal width."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cards: tuple[QWidget, ...] = ()
        self._columns = 0
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(2 * GRID)

    def show_cards(self, cards: Sequence[QWidget]) -> None:
        """Show these cards in this order; removed ones are deleted."""
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
