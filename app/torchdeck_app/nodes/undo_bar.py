"""Bar with one message at a time, and Undo."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QWidget

from torchdeck_app.widgets.announcements import announce
from torchdeck_app.widgets.labels import ElidedLabel, plain_tip
from torchdeck_app.widgets.panel import GRID

SHOWN = 15_000
"""Milliseconds for which the bar is shown."""


class UndoBar(QFrame):
    """Bar for one message at a time, at the bottom of the page."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "panel")
        self._undo: Callable[[], None] | None = None
        self.text = ElidedLabel()
        self.button = QPushButton("Undo")
        self.button.setToolTip("Restore the node")
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
        """Show a message for a while, with a button if `undo` is given."""
        self._undo = undo
        self.text.setText(sentence)
        self.text.setToolTip(plain_tip(sentence))
        self.button.setVisible(undo is not None)
        self.show()
        announce(self, sentence)
        self._clock.start(SHOWN)

    def _press(self) -> None:
        undo, self._undo = self._undo, None
        self.hide()
        if undo is not None:
            undo()
