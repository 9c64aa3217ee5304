"""Placeholder of the form for a text that could never be read."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from torchdeck.config.problems import Problem
from torchdeck_app.launch.form.field_row import sentence
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID, EmptyState


class UnreadState(QWidget):
    """Placeholder that shows where the text is invalid, with a link to it. Initially hidden."""

    pressed = Signal(int)
    """Emitted with a line of the text to show, counted from 1."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._line = 1
        self._state = EmptyState(
            theme,
            "file",
            "No form yet",
            "",
            button="Show the TOML",
            pressed=lambda: self.pressed.emit(self._line),
        )
        self.button = self._state.button
        self.button.setToolTip("Go to the line of the text that is wrong")
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        column.addWidget(self._state)
        self.text = ""
        self.hide()

    def show_problem(self, problem: Problem) -> None:
        """Show that `problem` prevents reading the text."""
        self._line = problem.line or 1
        self.text = f"{sentence(problem, '').strip()}. The fields come once the text can be read."
        self._state.set_sentence(self.text)
        self.button.setText(
            "Show the TOML" if problem.line is None else f"Show line {problem.line} of the TOML"
        )
        self.button.setAccessibleName(self.button.text())
