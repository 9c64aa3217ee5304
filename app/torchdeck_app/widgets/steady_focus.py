"""Focus handling for buttons that appear and vanish: a repeated Space must not press their neighbours."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget


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
