"""The timeline of a run: what happened when, by whom."""

from __future__ import annotations

from PySide6.QtCore import QItemSelection, QModelIndex, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.timeline import Happening, TimelineReader
from torchdeck_app.bridge.poller import Poller
from torchdeck_app.runs.room import RunRoom
from torchdeck_app.runs.timeline.model import TimelineModel, happening_at, plain
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.row_tree import RowTree

_INTERVAL = 1.0


class TimelineView(RunRoom):
    """Follows the journals while it is seen."""

    happened = Signal(object)
    """All there is now, as a tuple of Happening."""

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
        self.field.setToolTip("Show what holds all these words")
        self.field.textChanged.connect(self._show)
        self.all_details = QCheckBox("All &details")
        self.all_details.setToolTip("Show also what only matters when something went wrong")
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
        """Read the journals, also while this is not seen: the plots' marks come from here."""
        if on:
            self._poller.start()
        else:
            self._poller.stop()

    def closing(self) -> None:
        self._poller.stop()

    @property
    def shown(self) -> tuple[Happening, ...]:
        """What the filter takes."""
        words = self.field.text().lower().split()
        return tuple(
            each
            for each in self._all
            if (self.all_details.isChecked() or each.kind != "detail")
            and all(word in f"{each.text} {each.who} {each.event}".lower() for word in words)
        )

    def _look(self) -> tuple[Happening, ...]:
        """In the thread."""
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
        """What was selected stays so, and so does what is in sight, unless that is the end."""
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
        """A heading that is new is open; one that was folded stays so."""
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
