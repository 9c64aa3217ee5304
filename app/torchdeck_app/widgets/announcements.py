"""News for screen readers, which say it wherever the focus is."""

from __future__ import annotations

from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QWidget


def announce(widget: QWidget, text: str, *, urgent: bool = False) -> None:
    """Have a screen reader say `text`; does nothing if none is running.

    Args:
        widget: where the news is shown.
        text: one sentence; an empty one is not said.
        urgent: whether it interrupts what is being said.
    """
    if not text:
        return
    event = QAccessibleAnnouncementEvent(widget, text)
    if urgent:
        event.setPoliteness(QAccessible.AnnouncementPoliteness.Assertive)
    QAccessible.updateAccessibility(event)


class News:
    """Text that is said when it changes, but not when it is shown first."""

    def __init__(self, widget: QWidget) -> None:
        self._widget = widget
        self._subject, self._text = "", ""

    def tell(self, subject: str, text: str, *, urgent: bool = False) -> None:
        """Say `text` if it has changed since it was told last about the same subject, such as a run."""
        changed = text != self._text
        same, first = subject == self._subject, not self._text
        self._subject, self._text = subject, text
        if changed and same and not first:
            announce(self._widget, text, urgent=urgent)
