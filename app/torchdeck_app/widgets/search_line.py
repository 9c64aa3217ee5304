"""Line edit for a search term."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QLineEdit


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
