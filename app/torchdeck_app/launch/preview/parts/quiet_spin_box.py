"""Spin box that does not interfere with scrolling."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QSpinBox, QWidget

_MARGIN = 7
"""Pixels that align its text with that of other fields, as style sheets do not affect it."""


class QuietSpinBox(QSpinBox):
    """Spin box that the wheel changes only with focus; otherwise the wheel scrolls its container."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.lineEdit().setTextMargins(_MARGIN, 0, 0, 0)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802 - Qt's name
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()
