"""A sentence over the form that concerns all of it, with a button to the line it is about."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from torchdeck_app.widgets.panel import GRID, label


class Banner(QFrame):
    """Hidden while there is nothing to say."""

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
        """Show `text`; nothing for an empty one."""
        self.text.setText(text)
        self.line = line or 0
        self.button.setText(f"Show line {line}")
        self.button.setAccessibleName(f"show line {line} of the text")
        self.button.setVisible(line is not None)
        self.setVisible(bool(text))
