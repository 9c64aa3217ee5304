"""Tells of runs that end: in the window and on the desktop, as the settings say."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from torchdeck.runs.state import RunState
from torchdeck_app.settings.store import SettingsStore
from torchdeck_app.widgets.state_badge import LOOKS
from torchdeck_app.window.news.endings import Endings, ending_text
from torchdeck_app.window.news.notices import Notice, Notices
from torchdeck_app.window.news.tray import Tray

if TYPE_CHECKING:  # it imports much, and the first paint waits for nothing
    from torchdeck.runs.run_list import RunEntry, RunsSeen

_BAD = (RunState.FAILED, RunState.LOST)


class RunNews(QObject):
    """Looks at each newer list of runs for what has ended."""

    def __init__(
        self,
        store: SettingsStore,
        notices: Notices,
        tray: Tray,
        open_run: Callable[[str], None],
        in_sight: Callable[[], str],
        parent: QObject,
    ) -> None:
        """Nothing is told yet.

        Args:
            store: whether to tell.
            notices: of the window.
            tray: of the desktop.
            open_run: shows a run by its id.
            in_sight: the id of the run whose page somebody looks at; empty where there is none.
            parent: owns it.
        """
        super().__init__(parent)
        self._in_sight = in_sight
        self._store = store
        self._notices = notices
        self._tray = tray
        self._open_run = open_run
        self._endings = Endings(time.time())

    def take(self, seen: RunsSeen) -> None:
        """What the newest look at the runs found."""
        for entry in reversed(self._endings.new_in(seen.entries)):
            self._tell(entry)

    def _tell(self, entry: RunEntry) -> None:
        if entry.state is None:
            return
        text, is_bad, run_id = ending_text(entry), entry.state in _BAD, entry.id
        settings = self._store.settings

        def open_it() -> None:
            self._open_run(run_id)

        # its own page says so, in large letters
        if settings.notify_in_window and run_id != self._in_sight():
            self._notices.show_notice(Notice(text, LOOKS[entry.state], "Open run", open_it, stays=is_bad))
        if settings.notify_on_desktop:
            self._tray.tell(entry.name, text, is_bad=is_bad, pressed=open_it)
