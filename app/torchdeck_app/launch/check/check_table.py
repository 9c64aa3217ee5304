"""Preflight grid: the result per check and node, with reason and fix of the selected cell."""

from __future__ import annotations

from PySide6.QtCore import QItemSelectionModel, QModelIndex, Qt, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from torchdeck_app.launch.check.appearance import LOOKS, REMEDIES
from torchdeck_app.launch.check.grid import Grid
from torchdeck_app.launch.check.grid_model import GridModel, in_words
from torchdeck_app.launch.check.rows import CheckRow, Remedy
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, label
from torchdeck_app.widgets.row_tree import InkDelegate

_ROW = 3 * GRID
_WIDTHS = (6 * GRID, 16 * GRID)
"""Minimum and maximum width of a column."""
_SHEET = """QTableView { border: 0; background: transparent; }
QHeaderView, QHeaderView::section, QTableCornerButton::section { border: 0; background: transparent; }"""
"""Style of cells only: the table lies in a panel with a border."""
_DETAIL = 9 * GRID
"""Height of a cell's details; longer ones scroll."""


class CheckTable(QTableView):
    """Table as high as its rows: its container scrolls vertically, the table itself horizontally."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.cells = GridModel(theme, self)
        self.setModel(self.cells)
        self.setItemDelegate(InkDelegate(self))
        self.setAccessibleName("Checks by node")
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setShowGrid(False)
        self.setStyleSheet(_SHEET)
        self.setCornerButtonEnabled(False)
        self.setTabKeyNavigation(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWordWrap(False)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        for header in (self.verticalHeader(), self.horizontalHeader()):
            header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
            header.setHighlightSections(False)
            header.setSectionsClickable(False)
        self.verticalHeader().setDefaultSectionSize(_ROW)
        self.verticalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self.horizontalHeader().setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.horizontalHeader().setMinimumSectionSize(_WIDTHS[0])
        theme.changed.connect(self.viewport().update)

    def show_grid(self, grid: Grid, chosen: tuple[int, int] = (0, 0)) -> None:
        """Show another grid with a selected cell; the default is the worst one."""
        self.cells.show_grid(grid)
        metrics = self.horizontalHeader().fontMetrics()
        names = (str(self.cells.headerData(at, Qt.Orientation.Horizontal)) for at in range(len(grid.nodes)))
        wanted = max(metrics.horizontalAdvance(name) for name in names) + 3 * GRID
        self.horizontalHeader().setDefaultSectionSize(max(_WIDTHS[0], min(_WIDTHS[1], wanted)))
        bar = self.horizontalScrollBar().sizeHint().height()
        self.setFixedHeight(self.horizontalHeader().sizeHint().height() + len(grid.checks) * _ROW + bar)
        cell = self.cells.index(*chosen)
        self.selectionModel().setCurrentIndex(cell, QItemSelectionModel.SelectionFlag.ClearAndSelect)


class CellDetail(QFrame):
    """Reason and fix of one cell. Its height never changes."""

    remedy_wanted = Signal(object)
    """Emitted with the CheckRow whose button was pressed."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows: tuple[CheckRow, ...] = ()
        self.setAccessibleName("What was found there")
        self.title = label(wrap=True)
        self.text = label(wrap=True)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.button = QPushButton()
        self.button.clicked.connect(self._press)
        words = QWidget()
        column = QVBoxLayout(words)
        column.setContentsMargins(0, 4, 0, 4)
        column.setSpacing(0)
        column.addWidget(self.title)
        column.addWidget(self.text)
        column.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(words)
        for ground in (scroll.viewport(), words):
            ground.setAutoFillBackground(False)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        row.addWidget(scroll, 1)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignVCenter)
        self.setFixedHeight(_DETAIL)
        theme.changed.connect(self._colour)

    def show_cell(self, title: str, rows: tuple[CheckRow, ...]) -> None:
        """Show the results under `title`; `rows` may be empty if nothing was checked."""
        self._rows = rows
        look = LOOKS[rows[0].status] if rows else None
        self.title.setText(
            f"{title}: was not looked at" if look is None else f"{look.sign} {title}: {look.word}"
        )
        self.text.setText(in_words(rows))
        remedy: Remedy = next((row.remedy for row in rows if row.remedy), "")
        self.button.setVisible(bool(remedy))
        if remedy:
            self.button.setText(REMEDIES[remedy])
            self.button.setAccessibleName(REMEDIES[remedy].replace("&", ""))
            self.button.setToolTip(plain_tip(self.button.accessibleName()))
        self._colour()

    def _press(self) -> None:
        self.remedy_wanted.emit(next(row for row in self._rows if row.remedy))

    def _colour(self) -> None:
        name = LOOKS[self._rows[0].status].colour if self._rows else "secondary"
        self.title.setStyleSheet(f"color: {self._theme.colour(name).name()}; font-weight: 600")


def connect(table: CheckTable, detail: CellDetail, scroll: QScrollArea) -> None:
    """Show the selection of `table` in `detail`, and scroll it into view in `scroll`."""

    def show(index: QModelIndex) -> None:
        detail.show_cell(table.cells.title_at(index), table.cells.rows_at(index))
        inside = scroll.widget()
        if inside is not None and inside.isAncestorOf(table):
            at = table.viewport().mapTo(inside, table.visualRect(index).center())
            scroll.ensureVisible(0, at.y(), 0, 2 * _ROW)

    table.selectionModel().currentChanged.connect(lambda index, _before: show(index))
