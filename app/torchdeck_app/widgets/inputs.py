"""Input widgets: search line, spin box, combo box; and focus that does not jump when a button vanishes."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent, QKeySequence, QShowEvent, QWheelEvent
from PySide6.QtWidgets import QComboBox, QLabel, QLineEdit, QSpinBox, QWidget
from shiboken6 import isValid


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


class NamedBox(QComboBox):
    """Combo box that screen readers call by its accessible name.

    On Linux, Qt gives them the value of a combo box as its name, and its name only by a label next to it
    whose buddy it is. This one brings such a label, which is never shown.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._label: QLabel | None = None

    def setAccessibleName(self, name: str) -> None:  # noqa: N802 - Qt's name
        """Set the name for screen readers."""
        super().setAccessibleName(name)
        self._show_label()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        super().showEvent(event)
        self._show_label()

    def _show_label(self) -> None:
        parent, name = self.parentWidget(), self.accessibleName().replace("&", "&&")
        if parent is None or not name or self._has_label(parent):
            return
        if self._label is None or not isValid(self._label):
            self._label = QLabel(parent)
            self._label.setTextFormat(Qt.TextFormat.PlainText)
            self._label.setBuddy(self)
        if self._label.parentWidget() is not parent:
            self._label.setParent(parent)
        self._label.hide()
        if self._label.text() != name:
            self._label.setText(name)

    def _has_label(self, parent: QWidget) -> bool:
        """Return whether a label that is shown names it."""
        labels = parent.findChildren(QLabel, options=Qt.FindChildOption.FindDirectChildrenOnly)
        return any(label.buddy() is self for label in labels if label is not self._label)


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
