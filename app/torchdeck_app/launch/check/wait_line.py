"""Progress line for pending operations."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QWidget

from torchdeck_app.widgets.panel import GRID, label

SLOW = 200
"""Milliseconds after which a pending operation is shown."""


class WaitLine(QWidget):
    """Line that shows a pending operation after a delay, with a Cancel button."""

    cancelled = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text = label(role="secondary")
        self._text.setTextFormat(Qt.TextFormat.PlainText)
        self._text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.cancel_button = QPushButton("Cance&l")
        self.cancel_button.setAccessibleName("Cancel")
        self.cancel_button.setToolTip("Cancel the launch")
        self.cancel_button.clicked.connect(self.cancelled)
        self.cancel_button.hide()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        row.addWidget(self._text, 1)
        row.addWidget(self.cancel_button)
        self._waiting = ""
        self._timer = QTimer(self, singleShot=True, interval=SLOW)
        self._timer.timeout.connect(self._show)
        self._patience = QTimer(self, singleShot=True, interval=1000)
        self._patience.timeout.connect(self.cancel_button.show)

    @property
    def text(self) -> str:
        """Return the current text."""
        return self._text.text()

    def wait_for(self, what: str) -> None:
        """Set the pending operation; empty: none."""
        was, self._waiting = self._waiting, what
        if not what:
            self._timer.stop()
            self._patience.stop()
            self.cancel_button.hide()
            self._text.setText("")
        elif not was:
            self._timer.start()
            self._patience.start()
        elif not self._timer.isActive():
            self._show()

    def say(self, text: str) -> None:
        """Show a message while nothing is pending."""
        if not self._waiting:
            self._text.setText(text)

    def _show(self) -> None:
        self._text.setText(f"{self._waiting[:1].upper()}{self._waiting[1:]} …")
