"""List of runs: filter, rows, and messages about the polling itself."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from PySide6.QtCore import (
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QPointF,
    QRectF,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QColor, QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from torchdeck.quantities import duration
from torchdeck.runs.folders.notes import Note
from torchdeck.runs.run_list import RunEntry, RunsSeen
from torchdeck_app.runs.run_columns import COLUMNS, KEYS, LOSS, NAME, STATE, Row, columns_for
from torchdeck_app.runs.run_filter import FilterBar, RunFilter, counts
from torchdeck_app.runs.run_model import ROW, ArrangedRuns, RunModel
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.help import ErrorLine
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.row_tree import RowDelegate, RowTree

_TICK = 5000
"""Milliseconds between two updates of relative times such as `3 min ago`."""


class RunTable(QWidget):
    """Table of runs that emits the selection."""

    selection_changed = Signal()
    menu_asked = Signal(QPoint)
    """Emitted with the screen position."""
    opened = Signal()
    """Emitted on Return or a double click, to move to the run's page."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = RunModel(theme, self)
        self.arranged = ArrangedRuns(self.model, self)
        self.filter_bar = FilterBar(theme)
        self.list = _RunView(theme)
        self.list.setModel(self.arranged)
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
        self.filter_bar.changed.connect(self._filter)
        self.filter_bar.left_downwards.connect(self._into_list)
        self.list.selectionModel().selectionChanged.connect(self.selection_changed)
        self.list.customContextMenuRequested.connect(
            lambda at: self.menu_asked.emit(self.list.viewport().mapToGlobal(at))
        )
        self.list.activated.connect(self.opened)

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
        """Return the selected runs from the top."""
        indexes = sorted(self.list.selectionModel().selectedRows(), key=lambda index: index.row())
        rows = [index.data(ROW) for index in indexes]
        return tuple(row.entry for row in rows if isinstance(row, Row))

    def select(self, run_id: str) -> bool:
        """Select only this run and scroll to it; return whether it is in the list."""
        at = self.model.row_of(run_id)
        if at is None:
            return False
        index = self.arranged.mapFromSource(self.model.index(at, 0))
        if not index.isValid():
            self.filter_bar.set_filter(RunFilter())
            index = self.arranged.mapFromSource(self.model.index(at, 0))
        flags = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
        self.list.selectionModel().setCurrentIndex(index, flags)
        self.list.scrollTo(index)
        return True

    def select_beside(self, ids: Collection[str]) -> bool:
        """Select the run below the first of these, or above it; return whether there is one."""
        shown = [self.arranged.index(row, 0).data(ROW).entry.id for row in range(self.arranged.rowCount())]
        at = next((row for row, run_id in enumerate(shown) if run_id in ids), 0)
        left = [run_id for run_id in (*shown[at:], *reversed(shown[:at])) if run_id not in ids]
        return bool(left) and self.select(left[0])

    def set_ticking(self, *, on: bool) -> None:
        """Set whether relative times are kept up to date."""
        if on:
            self.model.tick(time.time())
            self._clock.start()
        else:
            self._clock.stop()

    def save_state(self) -> dict[str, Any]:
        """Return sorting and filter as JSON values."""
        wanted = self.arranged.filter
        return {
            "sort": KEYS[self.arranged.sortColumn()],
            "descending": self.arranged.sortOrder() is Qt.SortOrder.DescendingOrder,
            "text": wanted.text,
            "groups": sorted(wanted.groups),
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `save_state`."""
        if state.get("sort") in KEYS:
            down = state.get("descending") is not False
            order = Qt.SortOrder.DescendingOrder if down else Qt.SortOrder.AscendingOrder
            self.list.sortByColumn(KEYS.index(state["sort"]), order)
        text, groups = state.get("text"), state.get("groups")
        if isinstance(text, str) and isinstance(groups, list):
            self.filter_bar.set_filter(RunFilter(text, frozenset(map(str, groups))))

    def _filter(self, wanted: RunFilter) -> None:
        self.arranged.set_filter(wanted)
        self._say_nothing()

    def _say_nothing(self) -> None:
        self._nothing.setVisible(self.arranged.rowCount() == 0 and self.model.rowCount() > 0)

    def _into_list(self) -> None:
        self.list.setFocus(Qt.FocusReason.TabFocusReason)
        if not self.list.selectionModel().hasSelection() and self.arranged.rowCount():
            self.list.setCurrentIndex(self.arranged.index(0, 0))


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
        self._shown: tuple[tuple[str, ...], int] = ((), 0)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._fit()

    def _widths(self) -> dict[str, int]:
        metrics = self.fontMetrics()
        padding = 2 * GRID
        return {
            key: metrics.horizontalAdvance(max(column.sample, f"{column.title} ▾", key=len)) + padding
            for key, column in COLUMNS.items()
        }

    def _fit(self) -> None:
        widths = self._widths()
        room = self.viewport().width()
        shown = columns_for(room, widths)
        if LOSS not in shown:  # the state's symbol is enough then
            widths[STATE] = 4 * GRID
            shown = columns_for(room, widths)
        if (shown, widths[STATE]) == self._shown or self.model() is None:
            return
        self._shown = (shown, widths[STATE])
        self.shortened.emit(LOSS not in columns_for(room, self._widths()))
        for column, key in enumerate(KEYS):
            self.setColumnHidden(column, key not in shown)
            stretches = key == NAME
            mode = QHeaderView.ResizeMode.Stretch if stretches else QHeaderView.ResizeMode.Fixed
            self.header().setSectionResizeMode(column, mode)
            if not stretches:
                self.header().resizeSection(column, widths[key])


# Painting of the list's cells: the state as space allows, the loss with a small curve.

GAP = 8


def points(values: Sequence[float], area: QRectF) -> list[QPointF]:
    """Return the curve of `values` from left to right in `area`; non-finite values are skipped."""
    known = [(at, value) for at, value in enumerate(values) if math.isfinite(value)]
    if not known:
        return []
    low, high = min(value for _, value in known), max(value for _, value in known)
    width, span = max(1, len(values) - 1), high - low
    found = []
    for at, value in known:
        share = (value - low) / span if span else 0.5
        found.append(QPointF(area.left() + area.width() * at / width, area.bottom() - area.height() * share))
    return found


class CellDelegate(RowDelegate):
    """Delegate for rows with padding."""

    def sizeHint(  # noqa: N802 - Qt's name
        self,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,  # noqa: ARG002 - Qt's arguments
    ) -> QSize:
        """Return a size independent of the content: column widths are set elsewhere, and Qt calls this on
        every change.
        """
        return QSize(option.rect.width(), option.fontMetrics.height() + GAP + 2)


class StateDelegate(CellDelegate):
    """Symbol and word, or only the symbol in a narrow column."""

    def initStyleOption(  # noqa: N802 - Qt's name
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().initStyleOption(option, index)
        if option.fontMetrics.horizontalAdvance(option.text) + GAP > option.rect.width():
            option.text = option.text[:1]


class SparklineDelegate(CellDelegate):
    """Loss cell: the curve on the left, the number on the right."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().paint(painter, option, index)
        row = index.data(ROW)
        if not isinstance(row, Row) or not row.entry.loss_curve:
            return
        area = QRectF(option.rect)
        room = area.width() - option.fontMetrics.horizontalAdvance("88.8888") - 3 * GAP
        if room < 2 * GAP:
            return
        area = QRectF(area.left() + GAP, area.top() + 6, room, area.height() - 12)
        curve = points(row.entry.loss_curve, area)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colour = QColor(self._theme.palette.series[0])
        if len(curve) == 1:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour)
            painter.drawEllipse(curve[0], 1.5, 1.5)
        else:
            painter.setPen(QPen(colour, 1.0))
            painter.drawPolyline(curve)
        painter.restore()
