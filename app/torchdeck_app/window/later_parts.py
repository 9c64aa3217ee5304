"""Parts of the window added after its first paint: palette, notices, tray, file drops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, Signal
from PySide6.QtGui import QAction, QDragMoveEvent, QDropEvent, QWindow
from shiboken6 import isValid

from torchdeck_app.settings.user_settings import SettingsStore
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.state_badge import UNREADABLE
from torchdeck_app.window.command_palette_dialog import CommandPalette
from torchdeck_app.window.connections import Connections
from torchdeck_app.window.context_menu_key import add_context_menu_key
from torchdeck_app.window.main_window import MainWindow
from torchdeck_app.window.notices import Notice, Notices
from torchdeck_app.window.palette_items import PaletteItem, action_items, tab_items
from torchdeck_app.window.run_news import RunNews, Tray

_PALETTE_ITSELF = "action:/Command palette"
_ANSWER = "action:/Act on the latest notification"


class LaterParts(QObject):
    """Parts not needed to show the window; importing and creating them takes about 30 ms."""

    def __init__(
        self,
        window: MainWindow,
        theme: Theme,
        store: SettingsStore,
        connections: Connections,
        offer_runs: Callable[[], Sequence[PaletteItem]],
        recent: Sequence[str],
    ) -> None:
        """Args:
        window: the window, already shown.
        theme: theme of the window.
        store: the settings.
        connections: open requested items.
        offer_runs: returns the palette lines of all runs.
        recent: keys of the items last chosen in the palette.
        """
        super().__init__(window)
        self._window = window
        self._offer_runs = offer_runs
        self.notices = Notices(theme, window.stack)
        window.add_floating(self.notices)
        add_context_menu_key(window)
        self.palette = CommandPalette(theme, self._items, window, recent)
        self.tray = Tray(window.windowIcon(), self._bring_up, self)
        self.news = RunNews(
            store, self.notices, self.tray, connections.open_run, connections.run_in_sight, self
        )
        dropped = DroppedFiles(window.windowHandle(), self)
        dropped.dropped.connect(connections.open_path)

    def warn(self, sentence: str) -> None:
        """Show a message that stays until it is closed."""
        self.notices.show_notice(Notice(sentence, UNREADABLE, stays=True))

    def _items(self) -> list[PaletteItem]:
        """Return the palette items, those of the current page first."""
        here = self._window.stack.current
        by_place = self._window.actions_by_page()
        ordered = {name: by_place[name] for name in sorted(by_place, key=lambda name: name != here)}
        found = action_items(ordered, self._trigger)
        places = {name: place for name in ordered if (place := self._window.stack.places.get(name))}
        found += tab_items(places, self._window.focus_page)
        void = {_PALETTE_ITSELF} if self.notices.shown else {_PALETTE_ITSELF, _ANSWER}
        return [item for item in found if item.key not in void] + list(self._offer_runs())

    def _trigger(self, place: str, action: QAction) -> None:
        if place and place != self._window.stack.current:
            self._window.focus_page(place)
        if isValid(action):  # it may have been deleted with its page
            action.trigger()

    def _bring_up(self) -> None:
        window = self._window
        if window.isMinimized():
            window.showNormal()
        window.raise_()
        window.activateWindow()


# Files dropped anywhere on the window.

SUFFIXES = (".toml", ".py")


def droppable(data: QMimeData) -> Path | None:
    """Return the first local run file or script in the dragged data; None if there is none."""
    paths = [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]
    return next((path for path in paths if path.suffix.lower() in SUFFIXES), None)


class DroppedFiles(QObject):
    """Filter that sees a drag before the widget under it: a text editor would insert a file as text."""

    dropped = Signal(Path)

    def __init__(self, handle: QWindow, parent: QObject) -> None:
        super().__init__(parent)
        handle.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if isinstance(event, QDropEvent):  # enter and move events are subclasses
            path = droppable(event.mimeData())
            if path is not None:
                event.acceptProposedAction()
                if not isinstance(event, QDragMoveEvent):
                    self.dropped.emit(path)
                return True
        return super().eventFilter(watched, event)
