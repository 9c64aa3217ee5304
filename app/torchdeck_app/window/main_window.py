"""The main window: places beside a rail that leads to them, one of them in sight."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from PySide6.QtCore import QByteArray, QEvent, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QCloseEvent
from PySide6.QtWidgets import QHBoxLayout, QMainWindow, QWidget

from torchdeck.shown_text import shown_line
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.place import Place
from torchdeck_app.window.importing import Importer
from torchdeck_app.window.menus import Menus
from torchdeck_app.window.navigation import Navigation
from torchdeck_app.window.news.status_bar import StatusBar
from torchdeck_app.window.place_stack import PlaceEntry, PlaceStack
from torchdeck_app.window.session.session import Session

OwnActions = Mapping[str, Sequence[QAction | None]]
TITLE = "Torchdeck"
_SIZE = QSize(1280, 800)


class MainWindow(QMainWindow):
    """One window for everything. It knows places by name, and nothing of what they show."""

    painted = Signal()
    """It has been seen for the first time."""
    close_asked = Signal()
    """Somebody wants to close it, and `may_close` said that it has to be asked."""
    closed = Signal()
    state_changed = Signal()
    """A place's has, and with it the session."""

    def __init__(
        self, theme: Theme, operations: Operations, entries: tuple[PlaceEntry, ...], importer: Importer
    ) -> None:
        super().__init__()
        self.setWindowTitle(TITLE)
        self.setMinimumSize(560, 320)
        self.may_close: Callable[[], bool] = lambda: True
        self.may_gather: Callable[[], bool] = lambda: False
        """Asked when something is to be painted: whether `paint_now` follows."""
        self.paintings = 0
        """How often something of it was painted, for whoever counts."""
        self._was_painted = False
        self._states: dict[str, Mapping[str, Any]] = {}
        self._own: list[QAction] = []
        self._menus: Menus | None = None
        self.stack = PlaceStack(theme, entries, importer)
        self._navigation = Navigation(theme, entries)
        self._navigation.chosen.connect(self.show_place)
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self._navigation)
        row.addWidget(self.stack, 1)
        self.centre = QWidget()
        self.centre.setLayout(row)
        self.setCentralWidget(self.centre)
        self.status = StatusBar(theme, operations)
        self.setStatusBar(self.status)
        self.stack.made.connect(self._take_in)
        self.stack.shown.connect(self._shown)

    def set_own_actions(self, own: OwnActions) -> None:
        """Fill the menu bar. To be called once.

        Args:
            own: the window's own actions by menu; None is a separator.
        """
        self._own = [action for actions in own.values() for action in actions if action is not None]
        self._menus = Menus(self.menuBar(), own, self._offered_here)
        look = QTimer(self)
        look.setInterval(500)  # places do not tell when what they offer changes
        look.timeout.connect(self._menus.refresh)
        look.start()

    def show_place(self, name: str) -> None:
        """Bring a place into sight."""
        self.stack.show_place(name)

    def focus_place(self, name: str) -> None:
        """Bring a place into sight, and the keyboard into it."""
        self.stack.show_place(name)
        self.stack.when_made(name, _focus)

    def actions_by_place(self) -> dict[str, Sequence[QAction]]:
        """All that can be done: the window's own under an empty name, and what each made place offers."""
        offered = {name: place.actions_offered() for name, place in self.stack.places.items()}
        return {"": self._own, **offered}

    def restore(self, session: Session) -> None:
        """Take up where the last window was left; places do once they are made. Before any is."""
        geometry = QByteArray.fromBase64(session.geometry.encode())
        if not (session.geometry and self.restoreGeometry(geometry)):
            self._fit_screen()
        self._states = dict(session.places)
        self.show_place(session.place if session.place in self.stack.names else self.stack.names[0])

    def session(self, recent: Sequence[str]) -> Session:
        """What `restore` takes; of places that are not made yet what they had before.

        Args:
            recent: what the command palette remembers.
        """
        made = {name: place.save_state() for name, place in self.stack.places.items()}
        return Session(
            geometry=bytes(self.saveGeometry().toBase64().data()).decode(),
            place=self.stack.current,
            places={**self._states, **made},
            recent=tuple(recent),
        )

    def event(self, event: QEvent) -> bool:
        what = event.type()
        if what is QEvent.Type.Paint and not self._was_painted:
            self._was_painted = True
            QTimer.singleShot(0, self.painted.emit)
        elif what is QEvent.Type.UpdateRequest:
            if self.may_gather():
                return True
            self.paintings += 1
        return super().event(event)

    def paint_now(self) -> None:
        """Paint what waits for it."""
        self.paintings += 1
        super().event(QEvent(QEvent.Type.UpdateRequest))

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802 - Qt's name
        if not self.may_close():
            event.ignore()
            self.close_asked.emit()
            return
        self.closed.emit()
        for place in self.stack.places.values():
            place.closing()
        super().closeEvent(event)

    def _fit_screen(self) -> None:
        """Large enough for both sides of Launch; the whole screen where it is no larger than that."""
        room = self.screen().availableSize()
        wanted = QSize(min(1600, room.width() * 4 // 5), min(1000, room.height() * 4 // 5))
        self.resize(wanted.expandedTo(_SIZE).boundedTo(room))
        if room.width() <= _SIZE.width() or room.height() <= _SIZE.height():
            self.setWindowState(Qt.WindowState.WindowMaximized)

    def _take_in(self, name: str, place: Place) -> None:
        place.windowTitleChanged.connect(self._show_title)
        place.state_changed.connect(self.state_changed)
        state = self._states.pop(name, None)
        if state is not None:
            place.restore_state(state)

    def _shown(self, name: str) -> None:
        self._navigation.select(name)
        self._show_title()
        if self._menus is not None:
            self._menus.show_place(name)

    def _show_title(self) -> None:
        place = self.stack.places.get(self.stack.current)
        title = "" if place is None else place.windowTitle()
        self.setWindowTitle(f"{shown_line(title)} – {TITLE}" if title else TITLE)

    def _offered_here(self) -> Sequence[QAction]:
        place = self.stack.places.get(self.stack.current)
        return () if place is None else place.actions_offered()


def _focus(place: Place) -> None:
    """What had the focus in the place last, else its first control that the keyboard reaches."""
    last: QWidget | None = place.focusWidget()
    if last is not None and last.isVisibleTo(place):
        last.setFocus(Qt.FocusReason.ShortcutFocusReason)
        return
    widget = place.nextInFocusChain()
    while widget is not None and widget is not place:
        reached = widget.focusPolicy().value & Qt.FocusPolicy.TabFocus.value
        if reached and widget.isEnabled() and place.isAncestorOf(widget) and widget.isVisibleTo(place):
            widget.setFocus(Qt.FocusReason.ShortcutFocusReason)
            return
        widget = widget.nextInFocusChain()
