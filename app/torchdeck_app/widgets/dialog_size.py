"""Initial size of dialogs."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QDialog

from torchdeck_app.widgets.panel import GRID

_FRAME = 6 * GRID
"""Screen space reserved for the window manager's title and borders."""


def begin_with(dialog: QDialog, width: int, height: int) -> None:
    """Give the dialog that size in pixels, limited to the screen."""
    room = room_of(dialog)
    dialog.resize(min(width, room.width() - _FRAME), min(height, room.height() - _FRAME))


def room_of(dialog: QDialog) -> QSize:
    """Return the space that the screen has for windows."""
    return dialog.screen().availableSize()
