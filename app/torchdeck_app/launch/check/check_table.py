"""Preflight grid: the result per check and node, with reason and fix of the selected cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from PySide6.QtCore import (
    QAbstractTableModel,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor
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

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.plan.check import Status
from torchdeck.shown_text import shown
from torchdeck_app.launch.check.check_rows import CheckRow, Grid, Remedy
from torchdeck_app.theme.palette import ColourName
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.help import HelpLink
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
        self.setAccessibleName("Result of the check")
        self.title = label(wrap=True)
        self.text = label(wrap=True)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.button = QPushButton()
        self.button.clicked.connect(self._press)
        self.help = HelpLink()
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
        row.addWidget(self.help, 0, Qt.AlignmentFlag.AlignVCenter)
        self.setFixedHeight(_DETAIL)
        theme.changed.connect(self._colour)

    def show_cell(self, title: str, rows: tuple[CheckRow, ...]) -> None:
        """Show the results under `title`; `rows` may be empty if nothing was checked."""
        self._rows = rows
        look = LOOKS[rows[0].status] if rows else None
        self.title.setText(f"{title}: not checked" if look is None else f"{look.sign} {title}: {look.word}")
        self.text.setText(in_words(rows))
        remedy = next((row.remedy for row in rows if row.remedy), None)
        self.button.setVisible(remedy is not None)
        self.help.set_page(next((row.page for row in rows if row.page), ""))
        if remedy is not None:
            self.button.setText(REMEDIES[remedy])
            self.button.setAccessibleName(REMEDIES[remedy].replace("&", ""))
            self.button.setToolTip(plain_tip(self.button.accessibleName()))
        self._colour()

    def _press(self) -> None:
        self.remedy_wanted.emit(next(row for row in self._rows if row.remedy))

    def _colour(self) -> None:
        name: ColourName = LOOKS[self._rows[0].status].colour if self._rows else "secondary"
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


# Grid of checks as a Qt model.

Index = QModelIndex | QPersistentModelIndex
_GROUND = {"failed": 40, "warning": 28}
"""Background opacity of 255; passed checks have none, so that the others stand out."""
_NOT_ASKED = "not checked"


class GridModel(QAbstractTableModel):
    """Table model with one row per check and one column per node."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._grid = Grid((), (), {}, ())

    def show_grid(self, grid: Grid) -> None:
        """Show another grid."""
        self.beginResetModel()
        self._grid = grid
        self.endResetModel()

    def rows_at(self, index: Index) -> tuple[CheckRow, ...]:
        """Return the results of a cell."""
        if not index.isValid():
            return ()
        return self._grid.cells.get((self._grid.checks[index.row()], self._grid.nodes[index.column()]), ())

    def title_at(self, index: Index) -> str:
        """Return the check and node of a cell."""
        if not index.isValid():
            return ""
        return f"{self._grid.checks[index.row()]} on {shown_node(self._grid.nodes[index.column()])}"

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802 - as Qt has it
        return 0 if parent.isValid() else len(self._grid.checks)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802
        return 0 if parent.isValid() else len(self._grid.nodes)

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        names = self._grid.nodes if orientation is Qt.Orientation.Horizontal else self._grid.checks
        if section >= len(names):
            return None
        name = shown(shown_node(names[section]))
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip(name)
        return name if role == Qt.ItemDataRole.DisplayRole else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        rows = self.rows_at(index)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignCenter
        if role == Qt.ItemDataRole.AccessibleTextRole:
            said = f"{LOOKS[rows[0].status].word}: {in_words(rows)}" if rows else _NOT_ASKED
            return shown(f"{self.title_at(index)}: {said}")
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip(f"{self.title_at(index)}: {in_words(rows) if rows else _NOT_ASKED}")
        if not rows:
            return {Qt.ItemDataRole.DisplayRole: "·", Qt.ItemDataRole.ForegroundRole: self._ink("quiet")}.get(
                Qt.ItemDataRole(role)
            )
        look = LOOKS[rows[0].status]
        if role == Qt.ItemDataRole.DisplayRole:
            return look.sign
        if role == Qt.ItemDataRole.ForegroundRole:
            return self._ink(look.colour)
        if role == Qt.ItemDataRole.BackgroundRole and rows[0].status in _GROUND:
            ground = self._ink(look.colour)
            ground.setAlpha(_GROUND[rows[0].status])
            return ground
        return None

    def _ink(self, name: ColourName) -> QColor:
        return QColor(self._theme.colour(name))


def shown_node(name: str) -> str:
    """Return the node's name, or the words for this machine."""
    return "this machine" if name == LOCALHOST else name


def in_words(rows: tuple[CheckRow, ...]) -> str:
    """Return results and fixes, one per line."""
    return "\n".join(f"{row.what}\n→ {row.fix}" if row.fix else row.what for row in rows)


class Look(NamedTuple):
    """Look of one outcome."""

    sign: str
    colour: ColourName
    word: str


LOOKS: Mapping[Status, Look] = {
    "failed": Look("✕", "bad", "blocks the launch"),
    "warning": Look("⚠", "warn", "warning"),
    "ok": Look("✓", "good", "passed"),
}
REMEDIES: Mapping[Remedy, str] = {
    Remedy.TRUST: "&Trust the folder …",
    Remedy.QUEUE: "&Wait in the queue",
    Remedy.GO_TO_KEY: "&Go to the key",
}
"""Button text of each remedy."""
