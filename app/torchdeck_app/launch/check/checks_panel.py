"""Checks before a start, in the page: results, fixes, and the buttons that apply them."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from torchdeck_app.launch.check.check_rows import CheckRow, Grid, by_node, grid_of, verdict
from torchdeck_app.launch.check.check_table import LOOKS, REMEDIES, CellDetail, CheckTable, connect
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.announcements import announce
from torchdeck_app.widgets.help import HelpLink
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, label

_HEIGHT = 232
"""Maximum height of a list."""
_BOARD = 392
"""Maximum height of a grid of nodes."""
_LEFT = 10 * 8
"""Height of the widget below that stays visible."""


class CheckPanel(QFrame):
    """Panel over the lower part of the preview, hidden until there is something to show."""

    remedy_wanted = Signal(object)
    """Emitted with the CheckRow whose button was pressed."""
    measure_wanted = Signal()
    """Emitted to measure disks, GPUs and connections between nodes."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows: tuple[CheckRow, ...] = ()
        self._below: QWidget | None = None
        self._wanted = 0
        self.setProperty("role", "panel")
        self.setAccessibleName("Checks before the launch")
        self.title = label("", Type.HEADING, wrap=True)
        self.title.setTextFormat(Qt.TextFormat.PlainText)
        self.close_button = QToolButton()
        self.close_button.setAccessibleName("Close the checks")
        self.close_button.setToolTip("Close the checks")
        self.close_button.clicked.connect(self.hide)
        self.measure_button = QPushButton("&Measure speeds")
        self.measure_button.setAccessibleName("Measure speeds")
        self.measure_button.setToolTip(
            "Measure the disk of checkpoints, and all pairs of nodes and GPUs: some seconds on every node"
        )
        self.measure_button.clicked.connect(self.measure_wanted)
        header = QHBoxLayout()
        header.addWidget(self.title, 1)
        header.addWidget(self.measure_button)
        header.addWidget(self.close_button)
        self._scroll = QScrollArea()
        self._scroll.setAccessibleName("Results of the check")
        self._scroll.setProperty("role", "scrolled")
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.viewport().setAutoFillBackground(False)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.table: CheckTable | None = None
        """Table of a run on several nodes."""
        self.detail = CellDetail(theme)
        self.detail.remedy_wanted.connect(self.remedy_wanted)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2 * GRID, GRID, GRID, GRID)
        layout.setSpacing(4)
        layout.addLayout(header)
        layout.addWidget(self._scroll, 1)
        layout.addWidget(self.detail)
        theme.changed.connect(self._draw_again)
        self._draw()
        self.hide()

    @property
    def rows(self) -> tuple[CheckRow, ...]:
        return self._rows

    def show_rows(self, rows: tuple[CheckRow, ...], title: str = "", *, can_measure: bool = False) -> None:
        """Show these rows under `title`, or under their verdict; with a button to measure, if that is
        possible.
        """
        self._rows = rows
        self.measure_button.setVisible(can_measure)
        self.title.setText(title or verdict(rows))
        self._draw()
        self.show()
        announce(self, self.title.text())

    def lie_over(self, below: QWidget) -> None:
        """Cover the lower part of `below`, which keeps its size."""
        self._below = below
        self.setParent(below)
        below.installEventFilter(self)
        self.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if watched is self._below and event.type() == QEvent.Type.Resize:
            self._place()
        return super().eventFilter(watched, event)

    def _place(self) -> None:
        most = _HEIGHT if self.table is None else _BOARD
        if self._below is not None:
            most = min(most, max(_HEIGHT, self._below.height() - _LEFT))
        self.setFixedHeight(min(most, max(96, self._wanted)))
        if self._below is not None:
            self.setGeometry(0, self._below.height() - self.height(), self._below.width(), self.height())
            self.raise_()

    def button(self, row: int) -> QPushButton:
        """Return the button of one row; raises LookupError if it has none."""
        found = self.findChild(QPushButton, f"remedy {row}")
        if found is None:
            raise LookupError(row)
        return found

    def _draw_again(self) -> None:
        """Redraw in other colours."""
        index = None if self.table is None else self.table.currentIndex()
        self._draw((0, 0) if index is None else (index.row(), index.column()))

    def _draw(self, chosen: tuple[int, int] = (0, 0)) -> None:
        self.close_button.setIcon(icon("close", self._theme.palette))
        inside = QWidget()
        grid = QGridLayout(inside)
        grid.setContentsMargins(0, 0, GRID, 0)
        grid.setHorizontalSpacing(GRID)
        grid.setVerticalSpacing(4)
        found = grid_of(self._rows)
        line = self._add_list(grid) if found is None else self._add_board(grid, found)
        grid.setColumnStretch(2, 1)
        grid.setRowStretch(line, 1)
        self._scroll.setWidget(inside)
        inside.setAutoFillBackground(False)  # setWidget has enabled it
        self.detail.setVisible(found is not None)
        if self.table is not None and found is not None:
            connect(self.table, self.detail, self._scroll)
            self.table.show_grid(found, chosen)
        self._wanted = inside.sizeHint().height() + 72 + (0 if found is None else self.detail.height())
        self._place()

    def _add_list(self, grid: QGridLayout) -> int:
        """Add all rows, grouped by node if there are several; return the first free line."""
        self.table = None
        grouped = by_node(self._rows)
        line = 0
        for node, rows in grouped.items():
            if len(grouped) > 1:
                grid.addWidget(_heading(node, rows), line, 0, 1, 5)
                line += 1
            line = self._add_rows(grid, line, rows)
        return line

    def _add_board(self, grid: QGridLayout, found: Grid) -> int:
        """Add the grid of nodes between other failures and other passed checks; return the first free
        line.
        """
        line = self._add_rows(grid, 0, [row for row in found.others if row.status != "ok"])
        self.table = CheckTable(self._theme)
        grid.addWidget(self.table, line, 0, 1, 5)
        fine = [row for row in found.others if row.status == "ok"]
        if fine:
            grid.addWidget(label("Run file and this machine", Type.HEADING), line + 1, 0, 1, 5)
        return self._add_rows(grid, line + 2, fine)

    def _add_rows(self, grid: QGridLayout, line: int, rows: Iterable[CheckRow]) -> int:
        """Add rows from `line` on; return the first free line."""
        for row in rows:
            self._add(grid, line, self._rows.index(row), row)
            line += 1
        return line

    def _add(self, grid: QGridLayout, line: int, index: int, row: CheckRow) -> None:
        sign, colour, word = LOOKS[row.status]
        mark = label(sign)
        mark.setStyleSheet(f"color: {self._theme.colour(colour).name()}")
        mark.setAccessibleName(word)
        mark.setToolTip(word)
        name = label(row.name, role="secondary")
        text = label(f"{row.what}\n→ {row.fix}" if row.fix else row.what, wrap=True)
        text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        for column, cell in enumerate((mark, name, text)):
            cell.setTextFormat(Qt.TextFormat.PlainText)
            grid.addWidget(
                cell, line, column, Qt.AlignmentFlag.AlignTop if column < 2 else Qt.AlignmentFlag(0)
            )
        if row.remedy:
            button = QPushButton(REMEDIES[row.remedy])
            button.setObjectName(f"remedy {index}")
            button.setAccessibleName(REMEDIES[row.remedy].replace("&", ""))
            button.setToolTip(plain_tip(row.fix))
            button.clicked.connect(lambda: self.remedy_wanted.emit(row))
            grid.addWidget(button, line, 3, Qt.AlignmentFlag.AlignTop)
        if row.page:
            grid.addWidget(HelpLink(row.page), line, 4, Qt.AlignmentFlag.AlignTop)


def _heading(node: str, rows: list[CheckRow]) -> QLabel:
    """Create the heading with a node's name and its number of passed checks."""
    fine = sum(row.status == "ok" for row in rows)
    made = label(f"{node or 'This machine'}  {fine} of {len(rows)} passed", Type.HEADING)
    made.setTextFormat(Qt.TextFormat.PlainText)
    return made
