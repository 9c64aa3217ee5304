"""Line edit that commits on Enter or when it loses focus, and reverts on Escape."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QLineEdit, QWidget


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
