"""Base of all controls of the form."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from torchdeck_app.launch.form.edits import NamedEdit, resetting, setting
from torchdeck_app.launch.form.states import FieldState


class Control(QWidget):
    """Control that shows the value of one field and requests edits; it changes nothing by itself."""

    asked = Signal(object)
    """Emitted with a NamedEdit."""
    refused = Signal(str)
    """Emitted with the reason why the input is not a valid value; empty once it is valid again."""

    def __init__(self, state: FieldState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.state = state
        self.beside: QWidget | None = None
        """Widget next to the field's name if the control itself is below it."""

    def show_state(self, state: FieldState) -> None:
        """Show another value of the same field; unfinished input stays."""
        self.state = state

    def set_writable(self, *, writable: bool) -> None:
        """Set whether it accepts edits."""
        self.setEnabled(writable)

    def ask(self, edit: NamedEdit) -> None:
        """Request `edit`."""
        self.refused.emit("")
        self.asked.emit(edit)

    def ask_value(self, value: object, literal: str = "") -> None:
        """Request to set the field to `value`."""
        self.ask(setting(self.state.path, value, literal))

    def ask_reset(self) -> None:
        """Request the field's default; does nothing if it is not written here."""
        self.refused.emit("")
        if self.state.own:
            self.ask(resetting(self.state.path))
