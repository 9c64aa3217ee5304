"""The menu bar: what the window can do, and what the place in sight can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QMenuBar
from shiboken6 import isValid

NAMES = ("File", "Edit", "Run", "View", "Help")
_PLACES_OWN = "View"
"""The menu before which that of the place in sight stands."""


class Menus:
    """Fills the menu bar. Actions of a place are in it, and their shortcuts work, while it is in sight."""

    def __init__(
        self,
        bar: QMenuBar,
        own: Mapping[str, Sequence[QAction | None]],
        offered: Callable[[], Sequence[QAction]],
    ) -> None:
        """Args:
        bar: of the window.
        own: the window's actions by the menu they are in; None is a separator.
        offered: actions of the place in sight; an action's data names its menu, or it is in the place's own.
        """
        self._offered = offered
        self._own = [action for actions in own.values() for action in actions if action is not None]
        # made here, not by the bar: what Qt makes is taken for deleted once Python lost its half of the bar
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

    def show_place(self, name: str) -> None:
        """Show what this place offers, instead of another's."""
        self._name = name
        self._place.setTitle(_lettered(name))
        self.refresh()

    def refresh(self) -> None:
        """Look again at what the place offers."""
        offered = tuple(self._offered())
        if offered == self._shown:
            return
        for menu, action in self._placed:
            if isValid(action):  # else it went with the page that offered it
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
        """Above what is the window's own."""
        if line is not None:
            line.setVisible(bool(actions))
            menu.insertActions(line, list(actions))
        else:
            menu.addActions(list(actions))
        self._placed += [(menu, action) for action in actions]

    def _settle(self) -> None:
        """Grey out empty menus; the window gives way where the place has the same shortcut."""
        for menu in self._menus.values():
            menu.menuAction().setEnabled(bool(menu.actions()))
        self._place.menuAction().setVisible(bool(self._place.actions()))
        claimed = {keys for action in self._shown for keys in action.shortcuts()}
        for action in self._own:
            gives_way = any(keys in claimed for keys in action.shortcuts())
            action.setVisible(not gives_way)


def _lettered(name: str) -> str:
    """`name` with the sign before its first letter that no other menu begins with."""
    taken = {other[0].lower() for other in NAMES}
    at = next((at for at, letter in enumerate(name) if letter.lower() not in taken), 0)
    return f"{name[:at]}&{name[at:]}"
