"""Button with a menu for columns, groups, archived runs and saved views of the list of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QPoint, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QInputDialog, QMenu, QToolButton, QWidget

from torchdeck.runs.table.arrangement import ALL_BUT
from torchdeck.runs.table.views import TableView, read_views
from torchdeck.shown_text import shown
from torchdeck.use_cases.table.views import delete_view, save_view
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.widgets.panel import GRID

GROUPS: Sequence[tuple[str, str]] = (
    ("", "&None"),
    ("name", "&Name"),
    ("seed", "&Seed"),
    (f"{ALL_BUT}seed", "Equal settings &but the seed"),
    ("program", "&Program"),
    ("state", "S&tate"),
)


class ViewMenu(QToolButton):
    """Button whose menu arranges the list."""

    columns_asked = Signal(QPoint)
    """Emitted with the screen position for the list of columns."""
    group_asked = Signal(str)
    sort_asked = Signal(str)
    """Emitted with the key of a column to sort by, in the other direction if it sorts already."""
    archived_asked = Signal(bool)
    save_asked = Signal(str)
    """Emitted with the name under which the current view is to be saved."""
    view_asked = Signal(str)
    delete_asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setText("View")
        self.setAccessibleName("Columns, groups and saved views")
        self.setToolTip("Choose columns, group runs, show archived runs, and save the view")
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._views: tuple[str, ...] = ()
        self._group, self._archived = "", False
        self.sortable: Callable[[], Sequence[tuple[str, str, bool]]] = tuple
        """Returns key and title of the columns, and whether they sort."""
        self._menu = QMenu(self)
        self._menu.aboutToShow.connect(self._fill)
        self.setMenu(self._menu)

    def set_state(self, group: str, *, archived: bool) -> None:
        """Show the current grouping, and whether archived runs are shown."""
        self._group, self._archived = group, archived

    def set_views(self, names: Sequence[str]) -> None:
        """Offer these saved views."""
        self._views = tuple(names)

    @property
    def filled(self) -> QMenu:
        """Return the menu with its current entries."""
        self._fill()
        return self._menu

    def _fill(self) -> None:
        menu = self._menu
        menu.clear()
        self._add(menu, "&Columns …", lambda: self.columns_asked.emit(self._below()))
        sorting = menu.addMenu("S&ort by")
        for key, title, on in self.sortable():
            self._add(sorting, shown(title).replace("&", "&&"), partial(self.sort_asked.emit, key), on=on)
        groups = menu.addMenu("&Group by")
        for key, text in GROUPS:
            self._add(groups, text, partial(self.group_asked.emit, key), on=key == self._group)
        if self._group not in dict(GROUPS):
            self._add(groups, shown(self._group), lambda: None, on=True)
        groups.addSeparator()
        self._add(groups, "An&other value …", self._ask_group)
        self._add(
            menu,
            "Show &archived runs",
            lambda: self.archived_asked.emit(not self._archived),
            on=self._archived,
        )
        menu.addSeparator()
        for name in self._views:
            self._add(menu, shown(name).replace("&", "&&"), partial(self.view_asked.emit, name))
        self._add(menu, "&Save this view …", self._ask_name)
        if self._views:
            deletion = menu.addMenu("&Delete a view")
            for name in self._views:
                text = shown(name).replace("&", "&&")
                self._add(deletion, text, partial(self.delete_asked.emit, name))

    @staticmethod
    def _add(menu: QMenu, text: str, pressed: Callable[[], None], *, on: bool | None = None) -> QAction:
        action = menu.addAction(text)
        if on is not None:
            action.setCheckable(True)
            action.setChecked(on)
        action.triggered.connect(lambda _checked=False: pressed())
        return action

    def _below(self) -> QPoint:
        return self.mapToGlobal(QPoint(0, self.height() + GRID // 2))

    def _ask_group(self) -> None:
        self._ask(
            "Group by", "Name of a value, such as training.lr or !seed:", self._group, self.group_asked.emit
        )

    def _ask_name(self) -> None:
        self._ask("Save this view", "Name of the view:", "", self.save_asked.emit)

    def _ask(self, title: str, text: str, value: str, answered: Callable[[str], object]) -> None:
        dialog = QInputDialog(self)
        dialog.setWindowTitle(title)
        dialog.setLabelText(text)
        dialog.setTextValue(value)
        dialog.textValueSelected.connect(answered)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()


class SavedViews(QObject):
    """Saved views of a home, read and written off the GUI thread."""

    changed = Signal(object)
    """Emitted with the names of the views."""
    failed = Signal(str)

    def __init__(self, operations: Operations, home: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._operations, self._home = operations, home
        self._views: Mapping[str, TableView] = {}

    def read(self) -> None:
        """Read the file; `changed` follows."""
        self._run("reading saved views", lambda: read_views(self._home))

    def get(self, name: str) -> TableView | None:
        """Return a view; None if it was deleted."""
        return self._views.get(name)

    def save(self, name: str, view: TableView) -> None:
        """Save a view; `changed` or `failed` follows."""
        self._run("saving a view", lambda: save_view(self._home, name, view, self.failed.emit))

    def delete(self, name: str) -> None:
        """Delete a view; `changed` or `failed` follows."""
        self._run("deleting a view", lambda: delete_view(self._home, name, self.failed.emit))

    def _run(self, name: str, call: Callable[[], Mapping[str, TableView]]) -> None:
        self._operations.run(
            name,
            lambda _progress, _cancel: call(),
            done=self._take,
            failed=lambda error: self.failed.emit(f"{name} failed: {error}"),
        )

    def _take(self, views: Mapping[str, TableView]) -> None:
        self._views = views
        self.changed.emit(tuple(views))
