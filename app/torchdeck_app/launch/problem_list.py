"""Problems of document and plan in a list of constant height under the document."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, QRect, QSize, Qt, Signal
from PySide6.QtGui import QFont, QPainter, QResizeEvent, QTextLayout, QTextOption
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QListView,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from torchdeck.config.problems import Problem
from torchdeck.config.problems import shown as brief
from torchdeck.config.remedies import Remedy, remedies_of
from torchdeck.plan.memory.suggest import Suggestion
from torchdeck.plan.preview import Preview
from torchdeck.quantities import size
from torchdeck.shown_text import shown
from torchdeck_app.launch.document.checked_text import CheckedDocument
from torchdeck_app.theme.palette import ColourName
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.help import HelpLink
from torchdeck_app.widgets.labels import ElidedLabel, control_text, plain_tip
from torchdeck_app.widgets.panel import GRID


class ProblemList(QWidget):
    """Problem list under a header with their count; Enter or a click goes to one."""

    chosen = Signal(object)
    """A ProblemRow."""
    remedy_asked = Signal(object)
    """Emitted with the Remedy of the current problem."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows: tuple[ProblemRow, ...] = ()
        self.header = ElidedLabel()
        self.header.setContentsMargins(GRID, 0, GRID, 0)
        self.help = HelpLink()
        """About the current problem, or the first one."""
        self.fix = QPushButton()
        """Solves the current problem, or the first one that has a remedy."""
        self.fix.clicked.connect(self._solve)
        self.fix.hide()
        self.list = QListWidget()
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setAccessibleName("List of problems")
        self.list.setToolTip("Click or press Enter to go to the field and line")
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.list.setResizeMode(QListView.ResizeMode.Adjust)
        self._delegate = ProblemDelegate(theme)
        self.list.setItemDelegate(self._delegate)
        self.list.itemClicked.connect(lambda _item: self._choose())
        self.list.itemActivated.connect(lambda _item: self._choose())
        self.list.currentRowChanged.connect(self._show_help)
        self.setMinimumHeight(72)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.setSpacing(4)
        top = QHBoxLayout()
        top.setContentsMargins(0, 0, GRID, 0)
        top.addWidget(self.header, 1)
        top.addWidget(self.fix)
        top.addWidget(self.help)
        layout.addLayout(top)
        layout.addWidget(self.list, 1)
        layout.addStretch(0)
        theme.changed.connect(self._draw)
        self._draw()

    @property
    def rows(self) -> tuple[ProblemRow, ...]:
        return self._rows

    def show_rows(self, rows: tuple[ProblemRow, ...]) -> None:
        """List these rows; the current row is kept if it still exists."""
        if rows == self._rows:
            return
        index = self.list.currentRow()
        kept = self._rows[index] if 0 <= index < len(self._rows) else None
        self._rows = rows
        self._draw()
        if kept in rows:
            self.list.setCurrentRow(rows.index(kept))

    def take_focus(self) -> None:
        """Focus the list if it is not empty: Enter goes to the first problem."""
        if self._rows:
            if self.list.currentRow() < 0:
                self.list.setCurrentRow(0)
            self.list.setFocus()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self.list.scheduleDelayedItemsLayout()

    def _choose(self) -> None:
        index = self.list.currentRow()
        if 0 <= index < len(self._rows):
            self.chosen.emit(self._rows[index])

    def _show_help(self) -> None:
        at = max(0, self.list.currentRow())
        self.help.set_page(self._rows[at].page if at < len(self._rows) else "")
        remedy = self._remedy()
        self.fix.setVisible(remedy is not None)
        self.fix.setText("" if remedy is None else control_text(remedy.label))
        self.fix.setToolTip("" if remedy is None else "Solves this problem; undo reverts it")

    def _remedy(self) -> Remedy | None:
        """Return the change for the current problem; without one, for the first that has any."""
        current = self.list.currentRow()
        rows = self._rows[current : current + 1] if current >= 0 else self._rows
        return next((row.remedy for row in rows if row.remedy is not None), None)

    def _solve(self) -> None:
        remedy = self._remedy()
        if remedy is not None:
            self.remedy_asked.emit(remedy)

    def _draw(self) -> None:
        some = bool(self._rows)
        text = headline(self._rows)
        self.header.setText(f"{'✕' if some else '✓'} {text}")
        self.header.setToolTip(plain_tip(text))
        self.header.setAccessibleName(text)
        # by the style sheet, because the application's overrides a palette
        self.header.setStyleSheet(f"color: {self._theme.colour('bad' if some else 'secondary').name()}")
        self.list.setVisible(some)
        self.list.clear()
        for row in self._rows:
            item = QListWidgetItem()
            item.setData(ROW_ROLE, row)
            spoken = f"{row.path}: {wrong_text(row)}. Expected: {row.right}"
            item.setData(Qt.ItemDataRole.AccessibleTextRole, spoken)
            item.setToolTip(plain_tip(f"{wrong_text(row)}\n{right_text(row)}"))
            self.list.addItem(item)
        self._show_help()


# Delegate for a problem: its key and line, the error, the expected value.

ROW_ROLE = Qt.ItemDataRole.UserRole
"""A ProblemRow."""
_PAD = 4
_SIDE = 8
_Index = QModelIndex | QPersistentModelIndex


class ProblemDelegate(QStyledItemDelegate):
    """Delegate with three texts below each other."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:  # noqa: N802 - Qt's name
        row: ProblemRow = index.data(ROW_ROLE)
        view = option.widget
        width = view.viewport().width() if isinstance(view, QAbstractItemView) else 300
        height = option.fontMetrics.height() + 2 * _PAD
        for text in (wrong_text(row), right_text(row)):
            height += _height(_lines(text, option.font, width - 2 * _SIDE))
        return QSize(width, height)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        row: ProblemRow = index.data(ROW_ROLE)
        state: QStyle.StateFlag = option.state
        area: QRect = option.rect
        if state & QStyle.StateFlag.State_Selected:
            painter.fillRect(area, self._theme.colour("selection"))
        inside = area.adjusted(_SIDE, _PAD, -_SIDE, -_PAD)
        line = QRect(inside.left(), inside.top(), inside.width(), option.fontMetrics.height())
        painter.save()
        self._head(painter, line, row)
        below = line.bottom() + 1
        texts: tuple[tuple[str, ColourName], ...] = (
            (wrong_text(row), "text"),
            (right_text(row), "secondary"),
        )
        for text, colour in texts:
            lines = _lines(text, option.font, inside.width())
            painter.setPen(self._theme.colour(colour))
            lines.draw(painter, QPointF(inside.left(), below))
            below += _height(lines)
        painter.restore()

    def _head(self, painter: QPainter, line: QRect, row: ProblemRow) -> None:
        where = "" if row.line is None else f"line {row.line}"
        room = painter.fontMetrics().horizontalAdvance(where)
        painter.setPen(self._theme.colour("secondary"))
        painter.drawText(line, Qt.AlignmentFlag.AlignRight, where)
        name = painter.fontMetrics().elidedText(
            f"✕ {shown(row.path) or 'the file'}", Qt.TextElideMode.ElideMiddle, line.width() - room - _SIDE
        )
        painter.setPen(self._theme.colour("bad"))
        painter.drawText(line, Qt.AlignmentFlag.AlignLeft, name)


def _lines(text: str, font: QFont, width: int) -> QTextLayout:
    """Lay out `text` in lines that break between words, or within one that is longer than a line."""
    layout = QTextLayout(shown(text).replace("\n", "\u2028"), font)
    option = QTextOption()
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    layout.setTextOption(option)
    layout.beginLayout()
    below = 0.0
    line = layout.createLine()
    while line.isValid():
        line.setLineWidth(max(40, width))
        line.setPosition(QPointF(0, below))
        below += line.height()
        line = layout.createLine()
    layout.endLayout()
    return layout


def _height(lines: QTextLayout) -> int:
    return ceil(lines.boundingRect().height())


def wrong_text(row: ProblemRow) -> str:
    """Return the error, with the file if it is in another one."""
    return (f"{row.file}: {row.wrong}" if row.file else row.wrong)[:2000]


def right_text(row: ProblemRow) -> str:
    """Return the expected value."""
    return f"→ {row.right}"[:2000]


# Problems of document and plan, combined for a list.


class ProblemRow(NamedTuple):
    """Line of the list."""

    path: str
    """Key; empty if it concerns a whole file."""
    wrong: str
    right: str
    line: int | None
    """Line of this text; None if it is elsewhere."""
    file: str
    """Other file that this one extends; else empty."""
    page: str = ""
    """Page of the documentation that helps."""
    remedy: Remedy | None = None
    """Change that solves it."""


def problem_rows(
    checked: CheckedDocument | None, planned: tuple[Problem, ...] = ()
) -> tuple[ProblemRow, ...]:
    """Return the problems of the text, or if there are none, of its plan on these machines; each once."""
    if checked is None:
        return ()
    remedies = checked.remedies or remedies_of(planned, checked.text)
    rows = [_row(problem, checked, remedies.get(problem)) for problem in checked.problems or planned]
    return tuple(dict.fromkeys(rows))


def misfit_rows(preview: Preview | None) -> tuple[ProblemRow, ...]:
    """Return that the run does not fit into memory, with the first change that helps; else nothing."""
    memory = None if preview is None else preview.memory
    if memory is None or memory.verdict != "does not fit":
        return ()
    group = memory.decisive
    of = "" if group.capacity_bytes is None else f" of {size(group.capacity_bytes)}"
    change = next(iter(memory.suggestions), None)
    key = "" if change is None else next(iter(change.change))
    right = "Memory shows the largest part" if change is None else change.sentence
    wrong = f"does not fit into memory: {size(group.peak_bytes)}{of} per rank"
    return (ProblemRow(key, wrong, right, None, "", "", _remedy_of(change)),)


def _remedy_of(change: Suggestion | None) -> Remedy | None:
    """Return a suggestion as a remedy, if it is of one key."""
    if change is None or len(change.change) != 1:
        return None
    ((key, value),) = change.change.items()
    return None if value is None else Remedy(f"Set {key} = {brief(value)}", tuple(key.split(".")), value)


def headline(rows: tuple[ProblemRow, ...]) -> str:
    """Return `No problems`, or their number and the first one's key."""
    if not rows:
        return "No problems"
    count = "1 problem" if len(rows) == 1 else f"{len(rows)} problems"
    name = next((row.path for row in rows if row.path), "")
    return f"{count}: {name}" if name else count


def _row(problem: Problem, checked: CheckedDocument, remedy: Remedy | None) -> ProblemRow:
    own = checked.is_own(problem) or not problem.file
    return ProblemRow(
        problem.path,
        problem.wrong,
        problem.right,
        problem.line if own else None,
        "" if own else problem.file,
        problem.page,
        remedy,
    )
