"""What all controls of the form have in common."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from torchdeck_app.launch.form.edits import NamedEdit, resetting, setting
from torchdeck_app.launch.form.states import FieldState


class Control(QWidget):
    """Shows the value of one field, and asks for edits; it changes nothing by itself."""

    asked = Signal(object)
    """A NamedEdit."""
    refused = Signal(str)
    """What was typed is no value, and why; empty once it is one again."""

    def __init__(self, state: FieldState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.state = state
        self.beside: QWidget | None = None
        """What stands beside the field's name, where the control itself stands below it."""

    def show_state(self, state: FieldState) -> None:
        """Show another value of the same field; what is being typed stays."""
        self.state = state

    def set_writable(self, *, writable: bool) -> None:
        """Whether it takes edits."""
        self.setEnabled(writable)

    def ask(self, edit: NamedEdit) -> None:
        """Ask for `edit`."""
        self.refused.emit("")
        self.asked.emit(edit)

    def ask_value(self, value: object, literal: str = "") -> None:
        """Ask for the field's value to become `value`."""
        self.ask(setting(self.state.path, value, literal))

    def ask_reset(self) -> None:
        """Ask for the field's default; nothing where it is not written here."""
        self.refused.emit("")
        if self.state.own:
            self.ask(resetting(self.state.path))
