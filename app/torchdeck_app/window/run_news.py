"""Notifications of finished runs, in the window and on the desktop as set in the settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QSystemTrayIcon

from torchdeck.runs.run_state import RunState
from torchdeck.shown_text import shown
from torchdeck_app.settings.user_settings import SettingsStore
from torchdeck_app.widgets.state_badge import look_of_run
from torchdeck_app.window.notices import Notice, Notices

if TYPE_CHECKING:  # a heavy import, kept out of the first paint
    from torchdeck.runs.run_list import RunEntry, RunsSeen


_BAD = (RunState.FAILED, RunState.LOST)


class RunNews(QObject):
    """Notifier that checks each new list of runs for finished ones."""

    def __init__(
        self,
        store: SettingsStore,
        notices: Notices,
        tray: Tray,
        open_run: Callable[[str], None],
        in_sight: Callable[[], str],
        parent: QObject,
    ) -> None:
        """Create the notifier; nothing is reported yet.

        Args:
            store: whether to notify.
            notices: notices of the window.
            tray: tray of the desktop.
            open_run: shows a run by its id.
            in_sight: returns the id of the run whose page is visible; empty if there is none.
            parent: its owner.
        """
        super().__init__(parent)
        self._in_sight = in_sight
        self._store = store
        self._notices = notices
        self._tray = tray
        self._open_run = open_run
        self._endings = Endings(time.time())

    def take(self, seen: RunsSeen) -> None:
        """Process the newest poll of the runs."""
        for entry in reversed(self._endings.new_in(seen.entries)):
            self._tell(entry)

    def _tell(self, entry: RunEntry) -> None:
        if entry.view is None:
            return
        text, is_bad, run_id = ending_text(entry), entry.state in _BAD, entry.id
        settings = self._store.settings

        def open_it() -> None:
            self._open_run(run_id)

        # its own page shows it prominently
        if settings.notify_in_window and run_id != self._in_sight():
            self._notices.show_notice(
                Notice(text, look_of_run(entry.view), "Open run", open_it, stays=is_bad)
            )
        if settings.notify_on_desktop:
            self._tray.tell(entry.name, text, is_bad=is_bad, pressed=open_it)


# Runs that have ended since the last poll.


class Endings:
    """Comparison of each poll with the previous one. Runs that ended before `opened` are never reported."""

    def __init__(self, opened: float) -> None:
        """Args:
        opened: when the window was opened, in seconds since the epoch.
        """
        self._opened = opened
        self._live: set[str] = set()
        self._told: dict[str, float | None] = {}

    def new_in(self, entries: Sequence[RunEntry]) -> list[RunEntry]:
        """Return runs that ended since the last poll, also those that started and ended between two."""
        found = []
        for entry in entries:
            view = entry.view
            if view is None:
                continue
            if not view.is_over:
                self._live.add(entry.id)
                continue
            was_live = entry.id in self._live
            self._live.discard(entry.id)
            ended_since = view.ended is not None and view.ended >= self._opened
            is_news = was_live or (ended_since and self._told.get(entry.id, -1.0) != view.ended)
            if is_news:
                self._told[entry.id] = view.ended
                found.append(entry)
        return found


def ending_text(entry: RunEntry) -> str:
    """Return `quickstart succeeded`, `big failed: rank 1 exited with code 1`; long reasons are cut."""
    if entry.view is None:
        return entry.name
    state = entry.view.state
    word = "was stopped" if state is RunState.CANCELLED else look_of_run(entry.view).word
    if state is RunState.LOST:
        word = "is lost"
    why = entry.view.why if state in (RunState.FAILED, RunState.LOST) else ""
    first = why.strip().splitlines()[0] if why.strip() else ""
    if len(first) > 160:
        first = first[:159].rstrip() + "…"
    return f"{entry.name} {word}" + (f": {first}" if first else "")


# Desktop notifications, if there is a tray.

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
