"""Input widgets: a line for a search term, a spin box that does not interfere with scrolling."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent, QKeySequence, QWheelEvent
from PySide6.QtWidgets import QLineEdit, QSpinBox, QWidget


class SearchLine(QLineEdit):
    """Line edit that leaves undo and redo to the window while empty: a page opens with the focus in one."""

    def event(self, event: QEvent) -> bool:
        is_key = event.type() in (QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress)
        if is_key and isinstance(event, QKeyEvent) and not self.text() and _is_history(event):
            event.ignore()
            return False
        return super().event(event)


def _is_history(event: QKeyEvent) -> bool:
    return event.matches(QKeySequence.StandardKey.Undo) or event.matches(QKeySequence.StandardKey.Redo)


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
