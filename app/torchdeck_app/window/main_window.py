"""Main window: pages next to a navigation bar, one of them visible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from PySide6.QtCore import QByteArray, QEvent, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QCloseEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QMainWindow,
    QMenu,
    QMenuBar,
    QToolButton,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from torchdeck.shown_text import shown_line
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.page import Page
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.widgets.tab_order import step_focus
from torchdeck_app.window.importing import Importer
from torchdeck_app.window.page_stack import PageEntry, PageStack
from torchdeck_app.window.saved_session import Session
from torchdeck_app.window.status_bar import StatusBar

ActionsByMenu = Mapping[str, Sequence[QAction | None]]
TITLE = "Torchdeck"
_SIZE = QSize(1280, 800)


class MainWindow(QMainWindow):
    """Window for everything. It knows pages by name, and nothing of their content."""

    painted = Signal()
    """Emitted after the first paint."""
    close_asked = Signal()
    """Emitted on an attempt to close if `may_close` requires confirmation."""
    closed = Signal()

    def __init__(
        self, theme: Theme, operations: Operations, entries: tuple[PageEntry, ...], importer: Importer
    ) -> None:
        super().__init__()
        self.setWindowTitle(TITLE)
        self.setMinimumSize(560, 320)
        self.may_close: Callable[[], bool] = lambda: True
        self._was_painted = False
        self._states: dict[str, Mapping[str, Any]] = {}
        self._own: list[QAction] = []
        self._menus: Menus | None = None
        self.stack = PageStack(theme, entries, importer)
        self._navigation = Navigation(theme, entries)
        self._navigation.chosen.connect(self.show_page)
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
        self._floating: list[QWidget] = []
        self.stack.made.connect(self._take_in)
        self.stack.shown.connect(self._shown)

    def set_own_actions(self, own: ActionsByMenu) -> None:
        """Fill the menu bar. Call this once.

        Args:
            own: the window's own actions by menu; None is a separator.
        """
        self._own = [action for actions in own.values() for action in actions if action is not None]
        self._menus = Menus(self.menuBar(), own, self._offered_here)
        look = QTimer(self)
        look.setInterval(500)  # pages do not signal changes of their actions
        look.timeout.connect(self._menus.refresh)
        look.start()

    def show_page(self, name: str) -> None:
        """Show a page."""
        self.stack.show_page(name)

    def focus_page(self, name: str) -> None:
        """Show a page and give it the focus."""
        self.stack.show_page(name)
        self.stack.when_made(name, _focus)

    def add_floating(self, widget: QWidget) -> None:
        """Have Tab visit a widget that floats over the page, after everything else."""
        self._floating.append(widget)

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: FBT001, N802 - Qt's name
        """Move the focus from the navigation through the page to the status bar, and around."""
        page = self.stack.currentWidget()
        areas = (self._navigation, *([page] if page else ()), self.status, *self._floating)
        return step_focus(areas, forward=forward, around=True) or super().focusNextPrevChild(forward)

    def actions_by_page(self) -> dict[str, Sequence[QAction]]:
        """Return all actions: the window's own under an empty name, and those of each created page."""
        offered = {name: place.actions_offered() for name, place in self.stack.places.items()}
        return {"": self._own, **offered}

    def restore(self, session: Session) -> None:
        """Restore the last session; pages restore theirs once created. Call this before any is."""
        geometry = QByteArray.fromBase64(session.geometry.encode())
        if not (session.geometry and self.restoreGeometry(geometry)):
            self._fit_screen()
        self._states = dict(session.places)
        self.show_page(session.place if session.place in self.stack.names else self.stack.names[0])

    def session(self, recent: Sequence[str]) -> Session:
        """Return the session for `restore`; pages not created yet keep their previous state.

        Args:
            recent: the command palette's recent items.
        """
        made = {name: place.save_state() for name, place in self.stack.places.items()}
        return Session(
            geometry=bytes(self.saveGeometry().toBase64().data()).decode(),
            place=self.stack.current,
            places={**self._states, **made},
            recent=tuple(recent),
        )

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.Paint and not self._was_painted:
            self._was_painted = True
            QTimer.singleShot(0, self.painted.emit)
        return super().event(event)

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
        """Size the window for both sides of Launch; use the whole screen if it is not larger."""
        room = self.screen().availableSize()
        wanted = QSize(min(1600, room.width() * 4 // 5), min(1000, room.height() * 4 // 5))
        self.resize(wanted.expandedTo(_SIZE).boundedTo(room))
        if room.width() <= _SIZE.width() or room.height() <= _SIZE.height():
            self.setWindowState(Qt.WindowState.WindowMaximized)

    def _take_in(self, name: str, place: Page) -> None:
        place.windowTitleChanged.connect(self._show_title)
        state = self._states.pop(name, None)
        if state is not None:
            place.restore_state(state)

    def _shown(self, name: str) -> None:
        self._navigation.select(name)
        self._show_title()
        if self._menus is not None:
            self._menus.show_page(name)

    def _show_title(self) -> None:
        place = self.stack.places.get(self.stack.current)
        title = "" if place is None else place.windowTitle()
        self.setWindowTitle(f"{shown_line(title)} – {TITLE}" if title else TITLE)

    def _offered_here(self) -> Sequence[QAction]:
        place = self.stack.places.get(self.stack.current)
        return () if place is None else place.actions_offered()


def _focus(place: Page) -> None:
    """Focus the page's last focused widget, else its first focusable control."""
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


_WIDTH = 9 * GRID


class Navigation(QFrame):
    """Navigation bar with one button per page."""

    chosen = Signal(str)
    """Emitted with the name of the page."""

    def __init__(self, theme: Theme, entries: tuple[PageEntry, ...], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "navigation")
        self.setAccessibleName("Places")
        self._theme = theme
        self._icons = {entry.name: entry.icon for entry in entries}
        self._buttons: dict[str, QToolButton] = {}
        self._group = QButtonGroup(self)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID // 2, GRID, GRID // 2, GRID)
        column.setSpacing(GRID // 2)
        for number, entry in enumerate(entries, 1):
            column.addWidget(self._button(entry.name, f"Ctrl+{number}"))
        column.addStretch(1)
        theme.changed.connect(self._draw)
        self._draw()

    def select(self, name: str) -> None:
        """Mark the current page."""
        self._buttons[name].setChecked(True)

    def _button(self, name: str, shortcut: str) -> QToolButton:
        button = QToolButton()
        button.setText(name)
        button.setAccessibleName(name)
        button.setToolTip(f"{name} ({shortcut})")
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
        button.setIconSize(QSize(24, 24))
        button.setFixedSize(_WIDTH, 7 * GRID)
        button.setCheckable(True)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(lambda: self.chosen.emit(name))
        self._group.addButton(button)
        self._buttons[name] = button
        return button

    def _draw(self) -> None:
        for name, button in self._buttons.items():
            button.setIcon(icon(self._icons[name], self._theme.palette))


# Menu bar: actions of the window and of the current page.

NAMES = ("File", "Edit", "Run", "View", "Help")
_PLACES_OWN = "View"
"""Menu before which that of the current page is inserted."""


class Menus:
    """Menu bar content. Actions of a page are in it, and their shortcuts work, while the page is visible."""

    def __init__(
        self,
        bar: QMenuBar,
        own: Mapping[str, Sequence[QAction | None]],
        offered: Callable[[], Sequence[QAction]],
    ) -> None:
        """Args:
        bar: menu bar of the window.
        own: the window's actions by menu; None is a separator.
        offered: actions of the current page; an action's data names its menu. Default: the page's own
            menu.
        """
        self._offered = offered
        self._own = [action for actions in own.values() for action in actions if action is not None]
        # created here, not by the bar: menus that Qt creates seem deleted once Python has lost its wrapper of
        # the bar
        self._menus = {name: QMenu(f"&{name}", bar) for name in NAMES}
        for menu in self._menus.values():
            bar.addMenu(menu)
        self._place = QMenu(bar)
        bar.insertMenu(self._menus[_PLACES_OWN].menuAction(), self._place)
        self._shown: tuple[QAction, ...] = ()
        self._placed: list[tuple[QMenu, QAction]] = []
        self._lines: dict[str, QAction] = {}
        """By menu: the separator between what the place offers and what is the window's own."""
        for name, menu in self._menus.items():
            if own.get(name):
                self._lines[name] = QAction(menu)
                self._lines[name].setSeparator(True)
                self._lines[name].setVisible(False)
                menu.addAction(self._lines[name])
            for action in own.get(name, ()):
                if action is None:
                    menu.addSeparator()
                else:
                    menu.addAction(action)
        for menu in (*self._menus.values(), self._place):
            menu.setToolTipsVisible(True)
            menu.aboutToShow.connect(self.refresh)
        self._name = ""
        self._settle()

    def show_page(self, name: str) -> None:
        """Show the actions of this page instead of another's."""
        self._name = name
        self._place.setTitle(_lettered(name))
        self.refresh()

    def refresh(self) -> None:
        """Update the actions of the page."""
        offered = tuple(self._offered())
        if offered == self._shown:
            return
        for menu, action in self._placed:
            if isValid(action):  # else it was deleted with its page
                menu.removeAction(action)
        self._placed = []
        self._shown = offered
        for name, menu in (*self._menus.items(), ("", self._place)):
            actions = [action for action in offered if self._menu_of(action) == name]
            self._fill(menu, actions, self._lines.get(name))
        self._settle()

    def _menu_of(self, action: QAction) -> str:
        data = action.data()
        return data if isinstance(data, str) and data in self._menus else ""

    def _fill(self, menu: QMenu, actions: Sequence[QAction], line: QAction | None) -> None:
        """Insert actions above the window's own."""
        if line is not None:
            line.setVisible(bool(actions))
            menu.insertActions(line, list(actions))
        else:
            menu.addActions(list(actions))
        self._placed += [(menu, action) for action in actions]

    def _settle(self) -> None:
        """Disable empty menus; the page's shortcuts take precedence over the window's."""
        for menu in self._menus.values():
            menu.menuAction().setEnabled(bool(menu.actions()))
        self._place.menuAction().setVisible(bool(self._place.actions()))
        claimed = {keys for action in self._shown for keys in action.shortcuts()}
        for action in self._own:
            gives_way = any(keys in claimed for keys in action.shortcuts())
            action.setVisible(not gives_way)


def _lettered(name: str) -> str:
    """Return `name` with the mnemonic before its first letter that no other menu uses."""
    taken = {other[0].lower() for other in NAMES}
    at = next((at for at, letter in enumerate(name) if letter.lower() not in taken), 0)
    return f"{name[:at]}&{name[at:]}"
