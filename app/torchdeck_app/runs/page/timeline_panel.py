"""Timeline of a run: its events with time and origin."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from PySide6.QtCore import QItemSelection, QModelIndex, QObject, Qt, Signal
from PySide6.QtGui import QColor, QGuiApplication, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import duration, moment
from torchdeck.runs.run_timeline import Happening, TimelineReader
from torchdeck.shown_text import shown
from torchdeck_app.bridge.background_loop import Poller
from torchdeck_app.runs.run_panel import RunPanel
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.palette import ColourName
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.row_tree import RowTree

_INTERVAL = 1.0


class TimelineView(RunPanel):
    """Panel that follows the journals while visible."""

    happened = Signal(object)
    """Emitted with all events as a tuple of Happening."""

    def __init__(self, theme: Theme, layout: RunLayout, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._all: tuple[Happening, ...] = ()
        self._latest: tuple[Happening, ...] = ()
        self._reader = TimelineReader(layout)
        self._poller: Poller[tuple[Happening, ...]] = Poller("timeline", self._look, _INTERVAL, self)
        self._poller.changed.connect(self._take)
        self._poller.failed.connect(lambda error: self._say(f"The journals cannot be read: {error}"))
        self.field = QLineEdit()
        self.field.setPlaceholderText("Filter")
        self.field.setClearButtonEnabled(True)
        self.field.setAccessibleName("Filter the timeline")
        self.field.setToolTip("Show events that contain all these words")
        self.field.textChanged.connect(self._show)
        self.all_details = QCheckBox("All &details")
        self.all_details.setToolTip("Also show events for troubleshooting")
        self.all_details.toggled.connect(self._show)
        self._problem = label("", role="error", wrap=True)
        self._problem.hide()
        self._model = TimelineModel(theme, self)
        self._is_updating = False
        self.tree = RowTree(theme)
        self.tree.setAccessibleName("Timeline")
        self.tree.setModel(self._model)
        self._size_columns()
        self._model.rowsInserted.connect(self._open_heading)
        self.tree.selectionModel().selectionChanged.connect(self._selected)
        self._lay_out()
        theme.changed.connect(self._recolour)
        self._show()

    def _lay_out(self) -> None:
        copy = QPushButton("Copy")
        copy.setToolTip("Copy the whole timeline as text")
        copy.setAccessibleName("Copy the timeline")
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(plain(self._all)))
        bar = QHBoxLayout()
        bar.setSpacing(GRID)
        bar.addWidget(self.field, 1)
        bar.addWidget(self.all_details)
        bar.addWidget(copy)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, GRID)
        column.setSpacing(GRID)
        column.addLayout(bar)
        column.addWidget(self._problem)
        column.addWidget(self.tree, 1)

    def follow(self, *, on: bool) -> None:
        """Read the journals even while hidden: the plots' markers come from here."""
        if on:
            self._poller.start()
        else:
            self._poller.stop()

    def closing(self) -> None:
        self._poller.stop()

    @property
    def shown(self) -> tuple[Happening, ...]:
        """Return the events that pass the filter."""
        words = self.field.text().lower().split()
        return tuple(
            each
            for each in self._all
            if (self.all_details.isChecked() or each.kind != "detail")
            and all(word in f"{each.text} {each.who} {each.event}".lower() for word in words)
        )

    def _look(self) -> tuple[Happening, ...]:
        """Do the work, in the thread."""
        found = self._reader.refresh()
        self._latest = self._latest if found is None else found
        return self._latest

    def _take(self, happenings: tuple[Happening, ...]) -> None:
        self._say("")
        self._all = happenings
        self._show()
        self.happened.emit(happenings)

    def _say(self, text: str) -> None:
        self._problem.setText(text)
        self._problem.setVisible(bool(text))

    def _show(self) -> None:
        """Update the tree; selection and scroll position stay, unless the end is followed."""
        bar = self.tree.verticalScrollBar()
        at_end, place = bar.value() >= bar.maximum(), bar.value()
        chosen = happening_at(self.tree.currentIndex())
        self._is_updating = True
        self._model.show(self.shown, self._all[0].time if self._all else 0.0)
        if chosen is not None and happening_at(self.tree.currentIndex()) != chosen:
            self.tree.setCurrentIndex(self._model.index_of(chosen))
        self._is_updating = False
        if at_end:
            self.tree.scrollToBottom()
        else:
            bar.setValue(place)

    def _recolour(self) -> None:
        self._model.clear_rows()
        self._show()

    def _open_heading(self, parent: QModelIndex, first: int, last: int) -> None:
        """Expand new headings; collapsed ones stay collapsed."""
        for row in range(first, last + 1):
            if parent.isValid():
                if not row:
                    self.tree.expand(parent)
            else:
                self.tree.setFirstColumnSpanned(row, parent, True)  # noqa: FBT003 - Qt's

    def _size_columns(self) -> None:
        for column, sample in enumerate(("88:88:88", "+88 min 88 s", "controller")):
            indent = 0 if column else 2 * self.tree.indentation()  # below a heading
            width = self.fontMetrics().horizontalAdvance(sample) + indent + 2 * GRID
            self.tree.setColumnWidth(column, width)

    def _selected(self, selected: QItemSelection) -> None:
        found = [happening_at(index) for index in selected.indexes()]
        moments = [each.time for each in found if each is not None]
        if moments and not self._is_updating:
            self.cursor_moved.emit(moments[0])


# Timeline as a tree: attempts as headings, with their events below.

HEADINGS = ("When", "After", "Who", "What")
_COLOURS: Mapping[str, ColourName] = {
    "state": "text",
    "attempt": "text",
    "checkpoint": "good",
    "request": "accent",
    "problem": "bad",
    "detail": "secondary",
}
HAPPENING = int(Qt.ItemDataRole.UserRole)
_SHORT = 300


class TimelineModel(QStandardItemModel):
    """Model with two levels. Rows keep their position: rows are appended, or removed from the end."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shown: tuple[Happening, ...] = ()
        self._begun = 0.0
        self._headings: dict[int, QStandardItem] = {}
        self.setHorizontalHeaderLabels(list(HEADINGS))

    def show(self, happenings: tuple[Happening, ...], begun: float) -> None:
        """Show rows for these.

        Args:
            happenings: events in the order of time.
            begun: unix time from which `After` counts.
        """
        if begun != self._begun:
            self.clear_rows()
            self._begun = begun
        pairs = zip(self._shown, happenings, strict=False)
        same = next(
            (at for at, (old, new) in enumerate(pairs) if old != new), min(len(self._shown), len(happenings))
        )
        for each in reversed(self._shown[same:]):
            self._take_last(each.attempt)
        for each in happenings[same:]:
            self._append(each)
        self._shown = happenings

    def clear_rows(self) -> None:
        """Remove all rows, for example to create them again in other colours."""
        self.removeRows(0, self.rowCount())
        self._headings.clear()
        self._shown = ()

    def index_of(self, happening: Happening) -> QModelIndex:
        """Return its index, or an invalid index if it is not there."""
        heading = self._headings.get(happening.attempt)
        if heading is None:
            return QModelIndex()
        for row in range(heading.rowCount()):
            index = self.index(row, 0, heading.index())
            if index.data(HAPPENING) == happening:
                return index
        return QModelIndex()

    def _append(self, each: Happening) -> None:
        heading = self._headings.get(each.attempt)
        if heading is None:
            heading = self._headings[each.attempt] = _heading(each.attempt)
            self.appendRow(heading)
        heading.appendRow(_row(each, self._begun, self._theme))

    def _take_last(self, attempt: int) -> None:
        heading = self._headings[attempt]
        heading.removeRow(heading.rowCount() - 1)
        if not heading.rowCount():
            del self._headings[attempt]
            self.removeRow(heading.row())


def plain(happenings: Sequence[Happening]) -> str:
    """Return the timeline as text for copying."""
    return "\n".join(f"{moment(each.time)}  {each.who}  {each.text}" for each in happenings)


def happening_at(index: QModelIndex) -> Happening | None:
    """Return the event of a row; None for a heading."""
    found = index.siblingAtColumn(0).data(HAPPENING)
    return found if isinstance(found, Happening) else None


def _heading(attempt: int) -> QStandardItem:
    item = QStandardItem(f"Attempt {attempt}" if attempt else "Before the first attempt")
    item.setFont(font(Type.HEADING))
    item.setEditable(False)
    return item


def _row(each: Happening, begun: float, theme: Theme) -> list[QStandardItem]:
    clock = time.strftime("%H:%M:%S", time.localtime(each.time))
    text = each.text if len(each.text) <= _SHORT else f"{each.text[:_SHORT]}…"
    cells = (clock, f"+{duration(each.time - begun)}", each.who, text)
    tips = (
        moment(each.time),
        f"since the run was created: {each.time - begun:,.3f} s",
        each.who,
        _details(each),
    )
    row = []
    for cell, tip in zip(cells, tips, strict=True):
        item = QStandardItem(shown(cell).replace("\n", " "))
        item.setToolTip(plain_tip(tip))
        item.setEditable(False)
        item.setForeground(theme.colour("secondary"))
        row.append(item)
    row[3].setForeground(QColor(theme.palette.named(_COLOURS[each.kind])))
    row[0].setData(each, HAPPENING)
    return row


def _details(each: Happening) -> str:
    lines = [f"{each.event} ({each.who})", *(f"{name} = {value[:_SHORT]}" for name, value in each.details)]
    return "\n".join(lines[:20])
