"""Shift+F10, which opens the context menu of what has the focus; Qt on Linux knows only the Menu key."""

from __future__ import annotations

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QContextMenuEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QApplication, QWidget

KEYS = "Shift+F10"


def add_context_menu_key(window: QWidget) -> QShortcut:
    """Have Shift+F10 do in `window` what the Menu key does."""
    made = QShortcut(QKeySequence(KEYS), window)
    made.activated.connect(open_context_menu)
    return made


def open_context_menu() -> None:
    """Ask the widget with the focus for its context menu, at its cursor or current row."""
    widget: QWidget | None = QApplication.focusWidget()
    if widget is None:
        return
    cursor = widget.inputMethodQuery(Qt.InputMethodQuery.ImCursorRectangle)
    place = (cursor if isinstance(cursor, QRect) and cursor.isValid() else widget.rect()).center()
    reason = QContextMenuEvent.Reason.Keyboard
    QApplication.sendEvent(widget, QContextMenuEvent(reason, place, widget.mapToGlobal(place)))
