"""Tables that may be there many times: a card for each, with its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from torchdeck.config.toml.document import KeyPath
from torchdeck_app.launch.form.controls.control import Control
from torchdeck_app.launch.form.controls.small_button import SmallButton
from torchdeck_app.launch.form.edits import adding, removing
from torchdeck_app.launch.form.states import FieldState
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID, label

if TYPE_CHECKING:
    from torchdeck_app.launch.form.field_row import FieldRow

BEGINNINGS: Mapping[tuple[str, ...], Mapping[str, Any]] = {
    ("cluster", "nodes"): {"name": "node[0-1]", "gpus": 8, "gpu": "H100"},
}
"""What a new table begins with, so that it is right as it is."""


class TableCard(QFrame):
    """One of the tables."""

    def __init__(self, theme: Theme, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "panel")
        self.setAccessibleName(title)
        self.rows: list[FieldRow] = []
        self.remove = SmallButton(theme, "delete", f"Remove {title}")
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(4, 4, 4, GRID)
        self.column.setSpacing(4)
        header = QHBoxLayout()
        header.setContentsMargins(12, 0, 0, 0)
        header.addWidget(label(title, role="secondary"), 1)
        header.addWidget(self.remove)
        self.column.addLayout(header)


class TablesControl(Control):
    """A card for each, and a button that adds one."""

    def __init__(
        self,
        theme: Theme,
        state: FieldState,
        make_row: Callable[[FieldState], FieldRow],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(state, parent)
        self._theme = theme
        self._make_row = make_row
        self.cards: list[TableCard] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(GRID)
        self.add = QPushButton("Add machines" if state.path == ("cluster", "nodes") else "Add")
        self.add.setAccessibleName(f"add to {state.key.name}")
        self.add.setToolTip(state.key.description)
        self.add.clicked.connect(self._add)
        self._column.addWidget(self.add, alignment=Qt.AlignmentFlag.AlignLeft)
        self.show_state(state)

    def show_state(self, state: FieldState) -> None:
        super().show_state(state)
        while len(self.cards) > len(state.entries):
            self.cards.pop().deleteLater()
        for index, fields in enumerate(state.entries):
            if index == len(self.cards):
                self._append(fields)
            for row, field in zip(self.cards[index].rows, fields, strict=True):
                row.show_state(field)

    def set_writable(self, *, writable: bool) -> None:
        self.add.setEnabled(writable)
        for card in self.cards:
            card.setEnabled(writable)

    def row_at(self, path: KeyPath) -> FieldRow | None:
        """The row of the key at `path`."""
        rows = (row for card in self.cards for row in card.rows)
        return next((row for row in rows if path and path[: len(row.state.path)] == row.state.path), None)

    def _append(self, fields: tuple[FieldState, ...]) -> None:
        index = len(self.cards)
        card = TableCard(self._theme, f"{self.state.key.path[-1]} {index + 1}")
        card.remove.clicked.connect(lambda: self.ask(removing((*self.state.path, index))))
        for field in fields:
            row = self._make_row(field)
            card.rows.append(row)
            card.column.addWidget(row)
        self.cards.append(card)
        self._column.insertWidget(index, card)

    def _add(self) -> None:
        self.ask(adding(self.state.path, BEGINNINGS.get(self.state.key.path, {})))
