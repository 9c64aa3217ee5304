"""Icon button next to a value."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QToolButton, QWidget

from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.theme import Theme


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
