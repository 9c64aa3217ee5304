"""Pages, each created on demand once its modules are imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QFrame, QScrollArea, QSplitter, QStackedWidget, QWidget

from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.page import Page
from torchdeck_app.widgets.panel import EmptyState
from torchdeck_app.window.importing import Importer

SLOW = 200
"""Milliseconds after which a loading page shows a message."""


class PageEntry(NamedTuple):
    """Page that is not created yet."""

    name: str
    icon: str
    modules: tuple[str, ...]
    """Modules that `make` needs, imported beforehand."""
    make: Callable[[], Page]


class PageStack(QStackedWidget):
    """Stack that shows one page at a time."""

    made = Signal(str, QWidget)
    """Emitted with a page's name and the Page; it is not visible yet."""
    shown = Signal(str)
    """Emitted with the name of the current page, created or still loading."""
    all_made = Signal()

    def __init__(
        self,
        theme: Theme,
        entries: tuple[PageEntry, ...],
        importer: Importer,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._entries = {entry.name: entry for entry in entries}
        self._importer = importer
        self._requested: set[str] = set()
        self._places: dict[str, Page] = {}
        self._pages: dict[str, QScrollArea] = {}
        self._failures: dict[str, QWidget] = {}
        self._wanted: dict[str, list[Callable[[Page], None]]] = {name: [] for name in self._entries}
        self._current = ""
        self._may_make = False
        self._opening = QWidget()
        self.addWidget(self._opening)
        self._slow = QTimer(self)
        self._slow.setSingleShot(True)
        self._slow.setInterval(SLOW)
        self._slow.timeout.connect(self._say_slow)
        importer.imported.connect(self._make)
        importer.failed.connect(self._fail)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._entries)

    @property
    def current(self) -> str:
        """Return the name of the current page; empty before the first."""
        return self._current

    @property
    def places(self) -> dict[str, Page]:
        """Return the created pages by name."""
        return dict(self._places)

    def begin(self) -> None:
        """Start to create pages: the current one, then the others; before, only names are known."""
        self._may_make = True
        for name in sorted(self._entries, key=lambda name: name != self._current):
            self._request(name)

    def show_page(self, name: str) -> None:
        """Show a page, at once or when it is created."""
        before = self._places.get(self._current)
        after = self._places.get(name)
        if before is not None and before is not after:
            before.left()
        self._current = name
        if after is None:
            self.setCurrentWidget(self._failures.get(name, self._opening))
            if name not in self._failures:
                self._slow.start()
                self._request(name, first=True)
        elif self.currentWidget() is not self._pages[name]:
            self.setCurrentWidget(self._pages[name])
            after.entered()
        self.shown.emit(name)

    def when_made(self, name: str, call: Callable[[Page], None]) -> None:
        """Call `call` with the page, now or once it is created. Never if creating it fails."""
        place = self._places.get(name)
        if place is not None:
            call(place)
        else:
            self._wanted[name].append(call)
            self._request(name, first=True)

    def _request(self, name: str, *, first: bool = False) -> None:
        if self._may_make and name not in self._requested:
            self._requested.add(name)
            self._importer.request(name, self._entries[name].modules, first=first)

    def _make(self, name: str) -> None:
        if name not in self._entries:
            return
        try:
            place = self._entries[name].make()
        except Exception as error:  # noqa: BLE001 - the other places are there all the same
            self._fail(name, error)
            return
        self._places[name] = place
        self._pages[name] = _page(place)
        self.addWidget(self._pages[name])
        self.made.emit(name, place)
        if name == self._current:
            self._slow.stop()
            self.show_page(name)
        self._tell_all_made()
        for call in self._wanted.pop(name):
            call(place)

    def _fail(self, name: str, error: Exception) -> None:
        if name not in self._entries:
            return
        page = EmptyState(
            self._theme,
            "warning",
            f"{name} cannot be opened",
            f"{type(error).__name__}: {error}. The other pages work; see the error report.",
        )
        self._failures[name] = page
        self.addWidget(page)
        if name == self._current:
            self._slow.stop()
            self.setCurrentWidget(page)
        sys.excepthook(type(error), error, error.__traceback__)
        self._tell_all_made()

    def _tell_all_made(self) -> None:
        if len(self._places) + len(self._failures) == len(self._entries):
            self.all_made.emit()

    def _say_slow(self) -> None:
        if self._current in self._places or self._current in self._failures:
            return
        said = EmptyState(self._theme, self._entries[self._current].icon, self._current, "Opening …")
        self.removeWidget(self._opening)
        self._opening.deleteLater()
        self._opening = said
        self.addWidget(said)
        self.setCurrentWidget(said)


def _page(place: Page) -> QScrollArea:
    """Wrap a page in scroll bars, shown only if the screen is smaller than its minimum size."""
    alone = QSplitter()  # has no height-for-width, so widgets shrink first
    alone.setChildrenCollapsible(False)
    alone.addWidget(place)
    area = QScrollArea()
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setWidgetResizable(True)
    area.setWidget(alone)
    return area
