"""A number field that a page can be scrolled past."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QSpinBox, QWidget

_MARGIN = 7
"""Pixels by which its text stands where that of other fields does: style sheets do not reach it."""


class QuietSpinBox(QSpinBox):
    """The wheel changes it only while it has the focus, and else scrolls what it stands on."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.lineEdit().setTextMargins(_MARGIN, 0, 0, 0)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802 - Qt's name
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()
