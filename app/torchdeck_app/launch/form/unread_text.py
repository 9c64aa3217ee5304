"""Signs of an unreadable text: a banner over the last valid values, or a placeholder."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from torchdeck.config.problems import Problem
from torchdeck_app.launch.form.field_messages import sentence
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID, EmptyState, label


class Banner(QFrame):
    """Banner, hidden while it has no text."""

    pressed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.line = 0
        self.text = label(role="error", wrap=True)
        self.text.setTextFormat(Qt.TextFormat.PlainText)
        self.text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self.button = QPushButton()
        self.button.setToolTip("Go to the line of the text")
        self.button.clicked.connect(self.pressed)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 0, 2 * GRID, GRID)
        column.setSpacing(GRID)
        column.addWidget(self.text)
        column.addWidget(self.button, alignment=Qt.AlignmentFlag.AlignLeft)
        self.setVisible(False)

    def show_problem(self, text: str, line: int | None) -> None:
        """Show `text`; hide if it is empty."""
        self.text.setText(text)
        self.line = line or 0
        self.button.setText(f"Show line {line}")
        self.button.setAccessibleName(f"show line {line} of the text")
        self.button.setVisible(line is not None)
        self.setVisible(bool(text))


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
        self.button.setToolTip("Go to the line with the error")
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        column.addWidget(self._state)
        self.text = ""
        self.hide()

    def show_problem(self, problem: Problem) -> None:
        """Show that `problem` prevents reading the text."""
        self._line = problem.line or 1
        self.text = f"{sentence(problem, '').strip()}. The form appears when the text is valid."
        self._state.set_sentence(self.text)
        self.button.setText(
            "Show the TOML" if problem.line is None else f"Show line {problem.line} of the TOML"
        )
        self.button.setAccessibleName(self.button.text())
