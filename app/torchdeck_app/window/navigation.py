"""The rail on the left that leads to the places."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QButtonGroup, QFrame, QToolButton, QVBoxLayout, QWidget

from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.window.place_stack import PlaceEntry

_WIDTH = 9 * GRID


class Navigation(QFrame):
    """One button a place."""

    chosen = Signal(str)
    """The name of the place."""

    def __init__(self, theme: Theme, entries: tuple[PlaceEntry, ...], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "navigation")
        self.setAccessibleName("Places")
        self._theme = theme
        self._icons = {entry.name: entry.icon for entry in entries}
        self._buttons: dict[str, QToolButton] = {}
        self._group = QButtonGroup(self)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID // 2, GRID, GRID // 2, GRID)
        column.setSpacing(GRID // 2)
        for number, entry in enumerate(entries, 1):
            column.addWidget(self._button(entry.name, f"Ctrl+{number}"))
        column.addStretch(1)
        theme.changed.connect(self._draw)
        self._draw()

    def select(self, name: str) -> None:
        """Mark the place in sight."""
        self._buttons[name].setChecked(True)

    def _button(self, name: str, shortcut: str) -> QToolButton:
        button = QToolButton()
        button.setText(name)
        button.setAccessibleName(name)
        button.setToolTip(f"{name} ({shortcut})")
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
        button.setIconSize(QSize(24, 24))
        button.setFixedSize(_WIDTH, 7 * GRID)
        button.setCheckable(True)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(lambda: self.chosen.emit(name))
        self._group.addButton(button)
        self._buttons[name] = button
        return button

    def _draw(self) -> None:
        for name, button in self._buttons.items():
            button.setIcon(icon(self._icons[name], self._theme.palette))
