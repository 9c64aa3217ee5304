"""A line to type what is searched for."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QLineEdit


class SearchLine(QLineEdit):
    """Leaves undo and redo to the window while it is empty: a place opens with the keyboard in one."""

    def event(self, event: QEvent) -> bool:
        is_key = event.type() in (QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress)
        if is_key and isinstance(event, QKeyEvent) and not self.text() and _is_history(event):
            event.ignore()
            return False
        return super().event(event)


def _is_history(event: QKeyEvent) -> bool:
    return event.matches(QKeySequence.StandardKey.Undo) or event.matches(QKeySequence.StandardKey.Redo)
