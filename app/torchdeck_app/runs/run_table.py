"""List of runs: filter, rows, and messages about the polling itself."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from PySide6.QtCore import (
    QItemSelectionModel,
    QPoint,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QVBoxLayout,
    QWidget,
)

from torchdeck.quantities import duration
from torchdeck.runs.folders.notes import Note
from torchdeck.runs.run_list import RunEntry, RunsSeen
from torchdeck.runs.table.columns import metrics_in, offered_names
from torchdeck.runs.table.row import Row
from torchdeck.runs.table.run_filter import RunFilter
from torchdeck.runs.table.views import TableView
from torchdeck.shown_text import shown
from torchdeck_app.runs.listing.cells import CellDelegate, SparklineDelegate, StateDelegate
from torchdeck_app.runs.listing.column_chooser import ColumnChooser
from torchdeck_app.runs.listing.view_menu import SavedViews, ViewMenu
from torchdeck_app.runs.run_columns import (
    KEYS,
    LOSS,
    NAME,
    STATE,
    column_of,
    columns_for,
    key_named,
    value_name,
)
from torchdeck_app.runs.run_filter import FilterBar, counts
from torchdeck_app.runs.run_model import MEMBERS, RunModel
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.help import ErrorLine
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.row_tree import RowTree

_LONGEST_HEADING = 24
"""Characters of a heading that determine the width of its column."""
_ROWS = QItemSelectionModel.SelectionFlag.Rows
_WIDE_NAME = 28 * GRID
"""Width of the names if the list scrolls sideways."""
_GROUPED = "0.0000 ± 0.0000"
"""Longest text of a number in the row of a group."""
_TICK = 5000
"""Milliseconds between two updates of relative times such as `3 min ago`."""


class RunTable(QWidget):
    """Table of runs that emits the selection."""

    selection_changed = Signal()
    menu_asked = Signal(QPoint)
    """Emitted with the screen position."""
    opened = Signal()
    """Emitted on Return or a double click, to move to the run's page."""
    metrics_wanted = Signal(object)
    """Emitted with the names of metrics' values to read, such as `loss:min`."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = RunModel(theme, self)
        self.filter_bar = FilterBar(theme)
        self.view_menu = ViewMenu()
        self.filter_bar.beside.addWidget(self.view_menu)
        self._chosen: tuple[str, ...] | None = None
        self._selected_ids: tuple[str, ...] = ()
        self.list = _RunView(theme)
        self.list.setModel(self.model)
        self.list.shortened.connect(lambda short: self.model.set_short(short=short))
        self.list.sortByColumn(KEYS.index("started"), Qt.SortOrder.DescendingOrder)
        self.notice = label("", role="warning", wrap=True)
        self.notice.setTextFormat(Qt.TextFormat.PlainText)
        self.notice.hide()
        self.problem = ErrorLine()
        self._nothing = label("No runs match this filter.", role="secondary", wrap=True)
        self._nothing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._nothing.setObjectName("nothing fits")
        self._nothing.hide()
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, 0)
        column.setSpacing(GRID)
        for widget in (self.filter_bar, self.problem, self.notice, self._nothing):
            column.addWidget(widget)
        column.addWidget(self.list, 1)
        self._clock = QTimer(self)
        self._clock.setInterval(_TICK)
        self._clock.timeout.connect(lambda: self.model.tick(time.time()))
        self._connect()

    def _connect(self) -> None:
        self.filter_bar.changed.connect(self._filter)
        self.filter_bar.left_downwards.connect(self._into_list)
        self.list.selectionModel().selectionChanged.connect(self._tell_selection)
        self.model.rearranged.connect(self._tell_selection)
        self.list.customContextMenuRequested.connect(
            lambda at: self.menu_asked.emit(self.list.viewport().mapToGlobal(at))
        )
        self.list.activated.connect(self.opened)
        header = self.list.header()
        header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header.customContextMenuRequested.connect(
            lambda at: self.choose_columns(header.viewport().mapToGlobal(at))
        )
        self.view_menu.columns_asked.connect(self.choose_columns)
        self.view_menu.group_asked.connect(self.set_group)
        self.view_menu.sort_asked.connect(self.sort_by)
        self.view_menu.sortable = self._sortable
        self.view_menu.archived_asked.connect(
            lambda on: self.filter_bar.set_filter(replace(self.filter_bar.filter, archived=on))
        )

    @property
    def view(self) -> TableView:
        """Return filter, columns, order and grouping."""
        key, descending = self.model.order
        columns = None if self._chosen is None else tuple(map(value_name, self._chosen))
        return TableView(self.model.filter, columns, value_name(key), descending, self.model.group)

    def set_view(self, view: TableView) -> None:
        """Show a view."""
        self.filter_bar.set_filter(view.filter)
        self.set_columns(None if view.columns is None else tuple(map(key_named, view.columns)))
        key = key_named(view.sort)
        if key not in self.model.keys:  # sorted by a value without a column
            self.set_columns((*(self._chosen or ()), key))
        order = Qt.SortOrder.DescendingOrder if view.descending else Qt.SortOrder.AscendingOrder
        self.list.sortByColumn(self.model.keys.index(key), order)
        self.set_group(view.group)

    def serve_views(self, views: SavedViews) -> None:
        """Save, show and delete views by the menu."""

        def show(name: str) -> None:
            view = views.get(name)
            if view is not None:
                self.set_view(view)

        views.changed.connect(self.view_menu.set_views)
        self.view_menu.save_asked.connect(lambda name: views.save(name, self.view))
        self.view_menu.view_asked.connect(show)
        self.view_menu.delete_asked.connect(views.delete)

    def set_columns(self, keys: tuple[str, ...] | None) -> None:
        """Show these columns besides state and name; None: as many of the usual ones as fit."""
        self._chosen = keys
        key, descending = self.model.order
        selection = self.list.selectionModel()
        rows = selection.selectedRows()
        self.model.set_extra(keys or ())
        for row in rows:  # new columns are not part of it
            selection.select(row, _ROWS | QItemSelectionModel.SelectionFlag.Select)
        if key not in self.model.keys:
            order = Qt.SortOrder.DescendingOrder if descending else Qt.SortOrder.AscendingOrder
            self.list.sortByColumn(KEYS.index("started"), order)
        self.list.set_chosen(keys)
        self._want_metrics()

    def sort_by(self, key: str) -> None:
        """Sort by a column; by the same one again in the other direction."""
        now, descending = self.model.order
        ascending = descending if key == now else True
        order = Qt.SortOrder.AscendingOrder if ascending else Qt.SortOrder.DescendingOrder
        self.list.sortByColumn(self.model.keys.index(key), order)

    def _sortable(self) -> list[tuple[str, str, bool]]:
        now, descending = self.model.order
        direction = ", descending" if descending else ", ascending"
        titles = {key: column_of(key).title for key in self.list.shown_keys()}
        return [(key, title + direction * (key == now), key == now) for key, title in titles.items()]

    def set_group(self, group: str) -> None:
        """Group the runs by a value; empty: not at all."""
        self.model.set_group(group.strip())
        self.list.setRootIsDecorated(bool(group.strip()))
        self.list.set_chosen(self._chosen)
        self.view_menu.set_state(self.model.group, archived=self.model.filter.archived)

    def choose_columns(self, at: QPoint) -> None:
        """Open the list of columns at a screen position."""
        fitting = tuple(key for key in self.list.shown_keys() if key not in (STATE, NAME))
        chosen = fitting if self._chosen is None else self._chosen
        chooser = ColumnChooser(offered_names(self.model.rows), chosen, self)
        chooser.chosen.connect(self.set_columns)
        chooser.open_at(at)

    def _want_metrics(self) -> None:
        key, _ = self.model.order
        self.metrics_wanted.emit(metrics_in({*self.model.keys, *self.model.filter.names, key}))

    def _tell_selection(self) -> None:
        """Emit the selection if it is another."""
        ids = tuple(entry.id for entry in self.selected())
        if ids != self._selected_ids:
            self._selected_ids = ids
            self.selection_changed.emit()

    def set_seen(self, seen: RunsSeen) -> None:
        """Show the result of a poll."""
        self.model.set_entries(seen.entries, time.time())
        self.filter_bar.set_counts(counts(seen.entries))
        self._say_nothing()
        self.set_notice(f"Reading {seen.unread:,} more runs …" if seen.unread > 50 else "")

    def set_notes(self, notes: Mapping[str, Note]) -> None:
        """Show tags and notes."""
        self.model.set_notes(notes)

    def set_notice(self, text: str) -> None:
        """Show a message about the polling; empty: none."""
        self.notice.setText(text)
        self.notice.setVisible(bool(text))

    def say_problem(self, text: str, page: str = "") -> None:
        """Show why a command failed, and the page that helps; empty: none."""
        self.problem.say(text, page)

    def set_waiting(self, seconds: float) -> None:
        """Show that a poll takes long."""
        slow = f"Reading the runs takes {duration(seconds)}: is the folder on a slow drive?"
        self.set_notice(slow if seconds else "")

    def selected(self) -> tuple[RunEntry, ...]:
        """Return the selected runs from the top; of a group all."""
        return tuple(row.entry for row in self.selected_rows())

    def selected_rows(self) -> tuple[Row, ...]:
        """Return the rows of the selected runs from the top; of a group all."""
        indexes = self.list.selectionModel().selectedRows()
        chosen = {row.entry.id for index in indexes for row in index.data(MEMBERS) or ()}
        return tuple(row for row in self.model.shown_rows() if row.entry.id in chosen) if chosen else ()

    def select(self, run_id: str) -> bool:
        """Select only this run and scroll to it; return whether it is in the list."""
        row = next((row for row in self.model.rows if row.entry.id == run_id), None)
        if row is None:
            return False
        if not self.model.index_of(run_id).isValid():
            self.filter_bar.set_filter(RunFilter(archived=row.note.archived))
        index = self.model.index_of(run_id)
        flags = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
        self.list.selectionModel().setCurrentIndex(index, flags)
        self.list.scrollTo(index)
        return True

    def select_beside(self, ids: Collection[str]) -> bool:
        """Select the run below the first of these, or above it; return whether there is one."""
        ids_shown = [row.entry.id for row in self.model.shown_rows()]
        at = next((row for row, run_id in enumerate(ids_shown) if run_id in ids), 0)
        left = [run_id for run_id in (*ids_shown[at:], *reversed(ids_shown[:at])) if run_id not in ids]
        return bool(left) and self.select(left[0])

    def set_ticking(self, *, on: bool) -> None:
        """Set whether relative times are kept up to date."""
        if on:
            self.model.tick(time.time())
            self._clock.start()
        else:
            self._clock.stop()

    def save_state(self) -> dict[str, Any]:
        """Return filter, columns, order and grouping as JSON values."""
        return self.view.to_json()

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `save_state`."""
        self.set_view(TableView.from_json(state))

    def _filter(self, wanted: RunFilter) -> None:
        self.model.set_filter(wanted)
        self.view_menu.set_state(self.model.group, archived=wanted.archived)
        self._want_metrics()
        self._say_nothing()

    def _say_nothing(self) -> None:
        nothing = not self.model.shown_rows() and bool(self.model.rows)
        self._nothing.setVisible(nothing)

    def _into_list(self) -> None:
        self.list.setFocus(Qt.FocusReason.TabFocusReason)
        if not self.list.selectionModel().hasSelection() and self.model.rowCount():
            self.list.setCurrentIndex(self.model.index(0, 0))


class _RunView(RowTree):
    """Flat list with as many columns as fit."""

    shortened = Signal(bool)
    """Emitted with whether the state is only a symbol."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme)
        self.setAccessibleName("Runs")
        self.setRootIsDecorated(False)
        self.setUniformRowHeights(True)
        self.setSortingEnabled(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.setItemDelegate(CellDelegate(self))
        self.setItemDelegateForColumn(KEYS.index(STATE), StateDelegate(self))
        self.setItemDelegateForColumn(KEYS.index(LOSS), SparklineDelegate(theme, self))
        self.header().setSectionsMovable(False)
        self.header().setStretchLastSection(False)
        self.setTreePosition(KEYS.index(NAME))
        self._chosen: tuple[str, ...] | None = None
        self._shown: tuple[tuple[str, ...], int, bool] = ((), 0, False)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._fit()

    def set_chosen(self, keys: tuple[str, ...] | None) -> None:
        """Show these columns; None: as many of the usual ones as fit."""
        self._chosen = keys
        self._shown = ((), 0, False)
        self._fit()

    def shown_keys(self) -> tuple[str, ...]:
        """Return the keys of the columns that are shown."""
        return self._shown[0]

    def _keys(self) -> tuple[str, ...]:
        model = self.model()
        return model.keys if isinstance(model, RunModel) else KEYS

    def _widths(self) -> dict[str, int]:
        metrics = self.fontMetrics()
        padding = 2 * GRID
        model = self.model()
        grouped = isinstance(model, RunModel) and bool(model.group)
        found = {}
        for key in self._keys():
            column = column_of(key)
            sample = max(column.sample, _GROUPED if column.is_number and grouped else "", key=len)
            heading = f"{shown(column.title)} ▾"[:_LONGEST_HEADING]
            found[key] = metrics.horizontalAdvance(max(sample, heading, key=len)) + padding
        return found

    def _fit(self) -> None:
        if self.model() is None:
            return
        widths = self._widths()
        room = self.viewport().width()
        usual = columns_for(room, widths)
        is_short = LOSS not in usual and self._chosen is None  # the state's symbol is enough then
        if is_short:
            widths[STATE] = 4 * GRID
            usual = columns_for(room, widths)
        chosen = usual if self._chosen is None else (STATE, NAME, *self._chosen)
        widths[NAME] = max(widths[NAME], 0 if self._chosen is None else _WIDE_NAME)
        wide = self._chosen is not None and sum(widths[key] for key in chosen) > room
        if (chosen, widths[STATE], wide) == self._shown:
            return
        self._shown = (chosen, widths[STATE], wide)
        self.shortened.emit(is_short)
        bar = Qt.ScrollBarPolicy.ScrollBarAsNeeded if wide else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.setHorizontalScrollBarPolicy(bar)
        for column, key in enumerate(self._keys()):
            self.setColumnHidden(column, key not in chosen)
            stretches = key == NAME and not wide
            mode = QHeaderView.ResizeMode.Stretch if stretches else QHeaderView.ResizeMode.Fixed
            self.header().setSectionResizeMode(column, mode)
            if not stretches:
                self.header().resizeSection(column, widths[key])
