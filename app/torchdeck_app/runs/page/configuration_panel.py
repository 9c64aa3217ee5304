"""View of a run's configuration: as written, against the defaults, or against another run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, Qt
from PySide6.QtGui import (
    QFont,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QPalette,
    QStandardItem,
    QStandardItemModel,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QPlainTextEdit,
    QPushButton,
    QStackedWidget,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from torchdeck.config.toml.merge import Difference, as_shown, differences
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.run_list import RunEntry
from torchdeck.shown_text import shown
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.runs.page.run_choice import RunChoice
from torchdeck_app.runs.run_configuration import Configuration, read_configuration
from torchdeck_app.runs.run_panel import RunPanel
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.row_tree import RowDelegate

AS_IT_WAS, DEFAULTS = "as it was", "defaults"


class ConfigurationView(RunPanel):
    """Panel that reads the run's file when first shown; the file never changes."""

    def __init__(
        self, theme: Theme, operations: Operations, layout: RunLayout, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._operations = operations
        self._layout = layout
        self._own: Configuration | None = None
        self._other: tuple[str, Configuration] | None = None
        self.choice = RunChoice(layout, "What to show of the configuration")
        self.choice.setToolTip("The run file as it was, or how it differs")
        self.choice.addItem("As it was", AS_IT_WAS)
        self.choice.addItem("Changes from the defaults", DEFAULTS)
        self.choice.currentIndexChanged.connect(self._choose)
        self._copy = QPushButton("Copy")
        self._copy.setToolTip("Copy the run file as it was")
        self._copy.setAccessibleName("Copy the run file")
        self._copy.clicked.connect(self._copy_text)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setFont(font(Type.MONO))
        self.text.setAccessibleName("Run file")
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setTabChangesFocus(True)
        self.grid = GridTable("Differences of the configuration")
        self._said = label("", role="secondary", wrap=True)
        self._stack = QStackedWidget()
        self._stack.addWidget(self.text)
        self._stack.addWidget(self.grid)
        self._lay_out()
        self._say("")

    def _lay_out(self) -> None:
        bar = QHBoxLayout()
        bar.setSpacing(GRID)
        bar.addWidget(self.choice)
        bar.addStretch(1)
        bar.addWidget(self._copy)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, GRID)
        column.setSpacing(GRID)
        column.addLayout(bar)
        column.addWidget(self._said)
        column.addWidget(self._stack, 1)

    def entered(self) -> None:
        if self._own is None:
            self._read(self._layout, self._take_own)

    @property
    def message(self) -> str:
        """Return the text above the table."""
        return self._said.text()

    def set_runs(self, entries: tuple[RunEntry, ...]) -> None:
        """Offer these runs for comparison."""
        self.choice.set_runs(entries)

    def _choose(self) -> None:
        wanted, other = self.choice.currentData(), self.choice.chosen_run
        if other is not None:
            self._other = None
            self._read(other, lambda found: self._take_other(wanted, found))
        self._show()

    def _read(self, layout: RunLayout, done: Callable[[Configuration], None]) -> None:
        self._operations.run(
            f"reading the configuration of {layout.root.name}",
            lambda _progress, _cancel: read_configuration(layout),
            done=done,
            failed=lambda error: self._say(f"The configuration cannot be read: {error}", "error"),
        )

    def _take_own(self, found: Configuration) -> None:
        self._own = found
        self.text.setPlainText(shown(found.text))
        self._show()

    def _take_other(self, run_id: str, found: Configuration) -> None:
        self._other = (run_id, found)
        self._show()

    def _show(self) -> None:
        own, wanted = self._own, self.choice.currentData()
        if own is None:
            return
        source = f"From {own.source}" if own.source else "Not from a file"
        problem = f"This version cannot read all of it: {own.problem}" if own.problem else ""
        if wanted == AS_IT_WAS:
            self._stack.setCurrentWidget(self.text)
            self._say(source)
        elif wanted == DEFAULTS:
            self._show_differences("Default", own.defaults, problem, "All values are the defaults.")
        elif self._other is not None and self._other[0] == wanted:
            found = differences(self._other[1].table, own.table)
            self._show_differences("The other run", found, problem, "Both runs have the same configuration.")

    def _show_differences(self, before: str, found: tuple[Difference, ...], problem: str, none: str) -> None:
        rows = [(each.name, as_shown(each.before, 200), as_shown(each.after, 200)) for each in found]
        self.grid.set_rows(("Key", before, "This run"), rows, fixed_width=True)
        self._stack.setCurrentWidget(self.grid)
        self._say(problem or ("" if found else none), "warning" if problem else "secondary")

    def _say(self, text: str, role: str = "secondary") -> None:
        self._said.setText(text)
        self._said.setProperty("role", role)
        self._said.style().polish(self._said)
        self._said.setVisible(bool(text))

    def _copy_text(self) -> None:
        if self._own is not None:
            QGuiApplication.clipboard().setText(self._own.text)


# Read-only table of texts: keys in the first column, values in the others.

_WIDEST = 360
"""Maximum width of a column in pixels."""


class GridTable(QTableView):
    """Table of texts whose selection can be copied."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setItemDelegate(RowDelegate(self))
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + 10)
        self.horizontalHeader().setHighlightSections(False)
        self.horizontalHeader().setDefaultAlignment(
            Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        )
        self._shown: tuple[tuple[str, ...], list[tuple[str, ...]]] | None = None

    def set_rows(
        self, headings: Sequence[str], rows: Sequence[Sequence[str]], *, fixed_width: bool = False
    ) -> None:
        """Show `rows`, each with one text per column; does nothing if they are unchanged."""
        if (shown := (tuple(headings), [tuple(row) for row in rows])) == self._shown:
            return
        self._shown = shown
        model = QStandardItemModel(0, len(headings), self)
        model.setHorizontalHeaderLabels(list(headings))
        face = font(Type.MONO) if fixed_width else None
        for row in rows:
            model.appendRow([_item(text, face if column else None) for column, text in enumerate(row)])
        before = self.model()
        self.setModel(model)
        if before is not None:
            before.deleteLater()
        self.resizeColumnsToContents()
        for column in range(len(headings)):
            self.setColumnWidth(column, min(_WIDEST, self.columnWidth(column)))
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        self.horizontalHeader().setStretchLastSection(True)

    def texts(self) -> list[tuple[str, ...]]:
        """Return the shown rows."""
        return [] if self._shown is None else self._shown[1]

    def row_of_the_keyboard(self) -> QRect:
        """Return the focus rectangle around the current row; empty without one."""
        current = self.currentIndex()
        if not current.isValid() or not self.hasFocus():
            return QRect()
        first = self.visualRect(current.siblingAtColumn(0))
        last = self.visualRect(current.siblingAtColumn(current.model().columnCount() - 1))
        return first.united(last).adjusted(0, 0, -1, -1)

    def currentChanged(  # noqa: N802 - Qt's name
        self, current: QModelIndex | QPersistentModelIndex, previous: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Repaint whole rows, as the focus frame spans them and Qt repaints only a cell."""
        super().currentChanged(current, previous)
        self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        super().paintEvent(event)
        around = self.row_of_the_keyboard()
        if not around.isEmpty():
            painter = QPainter(self.viewport())
            painter.setPen(self.palette().color(QPalette.ColorRole.Accent))
            painter.drawRect(around)
            painter.end()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if event.matches(QKeySequence.StandardKey.Copy) and self.model() is not None:
            rows = sorted({index.row() for index in self.selectedIndexes()})
            columns = range(self.model().columnCount())
            lines = ("\t".join(str(self.model().index(row, c).data()) for c in columns) for row in rows)
            QGuiApplication.clipboard().setText("\n".join(lines))
        else:
            super().keyPressEvent(event)


def _item(text: str, face: QFont | None) -> QStandardItem:
    item = QStandardItem(shown(text).replace("\n", " "))
    item.setToolTip(plain_tip(text[:2000]))
    if face is not None:
        item.setFont(face)
    return item
