"""Desktop notifications, if there is a tray."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QSystemTrayIcon

from torchdeck.shown_text import shown

_STAYS = 10_000
"""Milliseconds; the desktop may ignore it."""
_APPEARS = 500
"""Milliseconds for the tray to place a new icon: the balloon of a plain X tray points at it."""


class Tray(QObject):
    """Tray icon, created on the first notification; does nothing on a desktop without a tray."""

    def __init__(self, icon: QIcon, raise_window: Callable[[], None], parent: QObject) -> None:
        super().__init__(parent)
        self._picture = icon
        self._raise = raise_window
        self._icon: QSystemTrayIcon | None = None
        self._newest: Callable[[], None] | None = None

    def tell(self, title: str, text: str, *, is_bad: bool, pressed: Callable[[], None]) -> bool:
        """Show a notification; return whether there is a tray.

        Args:
            title: the run.
            text: how it ended.
            is_bad: whether it failed.
            pressed: called on a click, after the window has been raised.
        """
        wait = 0
        if self._icon is None:
            if not QSystemTrayIcon.isSystemTrayAvailable():
                return False
            self._icon = QSystemTrayIcon(self._picture, self)
            self._icon.setToolTip("Torchdeck")
            self._icon.messageClicked.connect(self._press)
            self._icon.activated.connect(lambda _reason: self._raise())
            self._icon.show()
            wait = _APPEARS
        self._newest = pressed
        kind = QSystemTrayIcon.MessageIcon.Critical if is_bad else QSystemTrayIcon.MessageIcon.Information
        # with the icon as context: nothing happens if it was closed meanwhile
        QTimer.singleShot(
            wait, self._icon, partial(self._icon.showMessage, _unmarked(title), _unmarked(text), kind, _STAYS)
        )
        return True

    def _press(self) -> None:
        self._raise()
        if self._newest is not None:
            self._newest()

    def close(self) -> None:
        """Remove the icon: it would keep the application running."""
        if self._icon is not None:
            self._icon.hide()
            self._icon.deleteLater()
            self._icon = None


def _unmarked(text: str) -> str:
    """Return `text` escaped for a notification, which desktops parse as markup with links and pictures."""
    return shown(text).replace("<", "‹").replace(">", "›")
