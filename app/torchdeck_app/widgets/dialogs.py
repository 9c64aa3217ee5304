"""Initial size of dialogs, and the question that must be answered before data is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QMessageBox, QWidget

from torchdeck.shown_text import shown
from torchdeck_app.widgets.panel import GRID


class Choice(NamedTuple):
    """Button of the question."""

    text: str
    role: QMessageBox.ButtonRole
    chosen: Callable[[], None]


def ask(parent: QWidget, text: str, more: str, choices: Sequence[Choice], *, default: int = 0) -> QMessageBox:
    """Ask; Esc selects the last choice, Enter the one at `default`."""
    box = QMessageBox(parent)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setIcon(QMessageBox.Icon.NoIcon)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(shown(text))
    box.setInformativeText(shown(more))
    buttons = [box.addButton(choice.text, choice.role) for choice in choices]
    for button, choice in zip(buttons, choices, strict=True):
        if choice.role is QMessageBox.ButtonRole.DestructiveRole:
            button.setProperty("role", "destructive")
            box.style().unpolish(button)  # it was polished when added, before it had a role
            box.style().polish(button)
    box.setDefaultButton(buttons[default])
    box.setEscapeButton(buttons[-1])

    def answered() -> None:
        clicked = box.clickedButton()
        for button, choice in zip(buttons, choices, strict=True):
            if button is clicked:
                choice.chosen()

    box.finished.connect(answered)
    layout, row = box.layout(), box.findChild(QDialogButtonBox)
    if layout is not None:  # the space of the missing icon is on the texts' left
        layout.setContentsMargins(0, 2 * GRID, 2 * GRID, 2 * GRID)
    if row is not None:  # not on that of the buttons, which reach the edge below short texts
        row.setContentsMargins(2 * GRID, 0, 0, 0)
    box.open()
    return box


# Initial size of dialogs.

_FRAME = 6 * GRID
"""Screen space reserved for the window manager's title and borders."""


def begin_with(dialog: QDialog, width: int, height: int) -> None:
    """Give the dialog that size in pixels, limited to the screen."""
    room = room_of(dialog)
    dialog.resize(min(width, room.width() - _FRAME), min(height, room.height() - _FRAME))


def room_of(dialog: QDialog) -> QSize:
    """Return the space that the screen has for windows."""
    return dialog.screen().availableSize()
