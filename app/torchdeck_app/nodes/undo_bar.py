"""Says what was done with a node, and offers to undo it where it can be."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QWidget

from torchdeck_app.widgets.elided_label import ElidedLabel
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.widgets.tooltip import plain_tip

SHOWN = 15_000
"""Milliseconds for which it is there."""


class UndoBar(QFrame):
    """One sentence at a time, at the bottom of the place."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "panel")
        self._undo: Callable[[], None] | None = None
        self.text = ElidedLabel()
        self.button = QPushButton("Undo")
        self.button.setToolTip("Put it back as it was")
        self.button.setAccessibleName("Undo the removal")
        self.button.clicked.connect(self._press)
        row = QHBoxLayout(self)
        row.setContentsMargins(GRID, 4, GRID, 4)
        row.addWidget(self.text, 1)
        row.addWidget(self.button)
        self._clock = QTimer(self)
        self._clock.setSingleShot(True)
        self._clock.timeout.connect(self.hide)
        self.hide()

    def say(self, sentence: str, undo: Callable[[], None] | None = None) -> None:
        """Show this for a while, with a button where `undo` is given."""
        self._undo = undo
        self.text.setText(sentence)
        self.text.setToolTip(plain_tip(sentence))
        self.button.setVisible(undo is not None)
        self.show()
        self._clock.start(SHOWN)

    def _press(self) -> None:
        undo, self._undo = self._undo, None
        self.hide()
        if undo is not None:
            undo()
