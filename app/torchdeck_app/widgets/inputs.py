"""Input widgets: a line for a search term, a spin box that does not interfere with scrolling; and focus
that does not jump when a button vanishes.
"""

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


# Focus handling for buttons that appear and vanish: a repeated Space must not press their neighbours.


def set_enabled(button: QWidget, home: QWidget, *, on: bool) -> None:
    """Enable or disable `button`; if it had the focus, move that to `home`, where keys have no effect.

    Qt would move it to the next button, which a second key press would then trigger.
    """
    if not on:
        leave(button, home)
    button.setEnabled(on)


def set_visible(button: QWidget, home: QWidget, *, on: bool) -> None:
    """Show or hide `button`; the focus is handled as in `set_enabled`."""
    if not on:
        leave(button, home)
    button.setVisible(on)


def leave(button: QWidget, home: QWidget) -> None:
    """Move the focus from `button`, if it has it, to `home`: for a button hidden with everything around
    it.
    """
    if button.window().focusWidget() is button:  # also in a window in the background
        home.setFocus(Qt.FocusReason.OtherFocusReason)
