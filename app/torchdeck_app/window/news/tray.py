"""Notices on the desktop, where it has a tray."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QSystemTrayIcon

from torchdeck.shown_text import shown

_STAYS = 10_000
"""Milliseconds; the desktop may think otherwise."""
_APPEARS = 500
"""Milliseconds that a tray gets to place a new icon: the balloon of a plain X tray points at it."""


class Tray(QObject):
    """An icon in the tray from the first notice on; nothing on a desktop without one."""

    def __init__(self, icon: QIcon, raise_window: Callable[[], None], parent: QObject) -> None:
        super().__init__(parent)
        self._picture = icon
        self._raise = raise_window
        self._icon: QSystemTrayIcon | None = None
        self._newest: Callable[[], None] | None = None

    def tell(self, title: str, text: str, *, is_bad: bool, pressed: Callable[[], None]) -> bool:
        """Show it; whether there is a tray to show it.

        Args:
            title: the run.
            text: how it ended.
            is_bad: it failed.
            pressed: called when the notice is pressed, after the window has been brought up.
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
        # with the icon for its context: closed meanwhile, it tells nothing
        QTimer.singleShot(
            wait, self._icon, partial(self._icon.showMessage, _unmarked(title), _unmarked(text), kind, _STAYS)
        )
        return True

    def _press(self) -> None:
        self._raise()
        if self._newest is not None:
            self._newest()

    def close(self) -> None:
        """Take the icon away: it would keep the application open."""
        if self._icon is not None:
            self._icon.hide()
            self._icon.deleteLater()
            self._icon = None


def _unmarked(text: str) -> str:
    """`text` for a notification, which desktops take for markup with links and pictures."""
    return shown(text).replace("<", "‹").replace(">", "›")
