"""Base of the form's controls, its line edit and its small button."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence, QShowEvent
from PySide6.QtWidgets import QLineEdit, QToolButton, QWidget

from torchdeck_app.launch.form.form_edits import NamedEdit, resetting, setting
from torchdeck_app.launch.form.form_state import FieldState
from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.theme import Theme


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


class SmallButton(QToolButton):
    """Icon button with its action as tooltip and accessible name."""

    def __init__(self, theme: Theme, name: str, what: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._name = name
        self.setIconSize(QSize(16, 16))
        self.setFixedSize(24, 24)
        self.setToolTip(what)
        self.setAccessibleName(what)
        theme.changed.connect(self._draw)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        super().showEvent(event)
        if self.icon().isNull():  # drawing takes milliseconds, and most are seen late or never
            self._draw()

    def _draw(self) -> None:
        self.setIcon(icon(self._name, self._theme.palette))


class ValueLine(QLineEdit):
    """Line edit that leaves undo to the document unless it has uncommitted input."""

    entered = Signal(str)
    """Emitted with the text when it was changed and committed."""

    given_up = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown = ""
        self._before = ""
        self._refused = False
        self.editingFinished.connect(self._finish)

    @property
    def is_being_typed(self) -> bool:
        """Return whether it has uncommitted input."""
        return self.text() != self._shown

    def show_text(self, text: str) -> None:
        """Show the current value; uncommitted input stays."""
        if self.is_being_typed and (self._refused or self.hasFocus()) and text == self._shown:
            return
        self._shown, self._refused = text, False
        if self.text() != text:
            at = self.cursorPosition()
            self.setText(text)
            self.setCursorPosition(at if self.hasFocus() else 0)

    def refuse(self) -> None:
        """Reject the committed input: it stays for correction, and the value is unchanged."""
        self._shown, self._refused = self._before, True

    def give_up(self) -> None:
        """Revert to the current value."""
        self._refused = False
        self.setText(self._shown)

    def _finish(self) -> None:
        if self.is_being_typed:
            self._before, self._shown, self._refused = self._shown, self.text(), False
            at = self.cursorPosition()
            self.setText(self._shown)  # undo of the input is now up to the document
            self.setCursorPosition(at)
            self.entered.emit(self._shown)

    def event(self, event: QEvent) -> bool:
        overrides = event.type() == QEvent.Type.ShortcutOverride
        if overrides and isinstance(event, QKeyEvent) and self._is_idle(event):
            event.ignore()  # the window's undo and redo
            return False
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if event.key() == Qt.Key.Key_Escape and self.is_being_typed:
            self.give_up()
            self.given_up.emit()
            return
        if self._is_idle(event):
            event.ignore()
            return
        super().keyPressEvent(event)

    def _is_idle(self, event: QKeyEvent) -> bool:
        history = event.matches(QKeySequence.StandardKey.Undo) or event.matches(QKeySequence.StandardKey.Redo)
        return history and not self.is_being_typed
