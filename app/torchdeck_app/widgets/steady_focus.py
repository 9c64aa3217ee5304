"""Buttons that come and go under a finger on Space, which must not press what stands beside them."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget


def set_enabled(button: QWidget, home: QWidget, *, on: bool) -> None:
    """Enable or disable `button`; the focus, where it had that, goes to `home`, where no key does a thing.

    Qt itself would give it to the next button, which the second press of a key then presses.
    """
    if not on:
        leave(button, home)
    button.setEnabled(on)


def set_visible(button: QWidget, home: QWidget, *, on: bool) -> None:
    """Show or hide `button`; the focus as with `set_enabled`."""
    if not on:
        leave(button, home)
    button.setVisible(on)


def leave(button: QWidget, home: QWidget) -> None:
    """Give the focus that `button` has, if it does, to `home`: for what is hidden with all around it."""
    if button.window().focusWidget() is button:  # in a window behind others, too
        home.setFocus(Qt.FocusReason.OtherFocusReason)
