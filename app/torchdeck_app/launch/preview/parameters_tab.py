"""Parameters of the model, and the rows of them that each rank holds."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import (
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QRectF,
    QSize,
    Qt,
    QTimer,
)
from PySide6.QtGui import QGuiApplication, QKeySequence, QPainter, QResizeEvent, QShortcut
from PySide6.QtWidgets import (
    QHBoxLayout,
    QPushButton,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTreeView,
    QVBoxLayout,
    QWidget,
)

from torchdeck.contract.plan.model_profile import TensorInfo
from torchdeck.plan.preview import Preview
from torchdeck.quantities import counted, size
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.preview.parameter_model import BAR, Column, ParameterModel
from torchdeck_app.launch.preview.parameter_tree import (
    ROOT,
    ParameterTree,
    as_text,
    number_text,
    parameter_tree,
)
from torchdeck_app.launch.preview.preview_tab import Figure, Latest, PreviewTab, once_traced, sentence
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.flow import Flow
from torchdeck_app.widgets.inputs import QuietSpinBox, SearchLine
from torchdeck_app.widgets.panel import GRID, label

_TYPED = 120
"""Milliseconds without a keystroke before a search starts."""
_LEAST_HEIGHT = 26 * GRID
"""Least height of the content in pixels: figures, search, and a few rows."""
_OPENED = 300
"""Maximum number of found tensors that are shown with their modules expanded."""
_ZERO = "ZeRO splits tensors without regard to rows, so a rank may hold parts of rows."


@dataclass(frozen=True, eq=False)
class _Found:
    """Result of a search in a tree."""

    tree: ParameterTree
    tensors: int
    visible: npt.NDArray[np.bool_]
    """Whether each node is visible, shape (nodes,)."""


@dataclass(frozen=True, eq=False)
class _Laid:
    """Parameters and their tree."""

    tensors: tuple[TensorInfo, ...]
    tree: ParameterTree


class ParametersView(PreviewTab):
    """Tab with a tree of modules and tensors, and what one rank holds of each."""

    title = "Parameters"
    icon = "parameters"

    def __init__(self, theme: Theme, operations: Operations, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.said = label(" ", role="secondary", wrap=True)
        self._laid: _Laid | None = None
        self.model = ParameterModel(self)
        self._built: Latest[_Laid] = Latest(operations, "laying out parameters", self)
        self._built.answered.connect(self._show_tree)
        self._built.waiting.connect(lambda: self.said.setText("Laying out parameters …"))
        self._copied: Latest[str] = Latest(operations, "copying parameters", self)
        self._copied.answered.connect(self._copy_text)
        self._found: Latest[_Found] = Latest(operations, "searching parameters", self)
        self._found.answered.connect(self._show_found)
        self._found.waiting.connect(lambda: self.said.setText("Searching …"))
        for question in (self._built, self._copied, self._found):
            question.failed.connect(lambda error: self.said.setText(sentence(str(error))))
        self.count, self.whole = Figure("parameters"), Figure("size")
        self.held, self.buffers = Figure("held"), Figure("buffers")
        self.search, self.rank, self.copy = SearchLine(), QuietSpinBox(), QPushButton("Cop&y as text")
        self.tree = ParameterTable(theme, self.model)
        self._typing = QTimer(self, singleShot=True, interval=_TYPED)
        self._typing.timeout.connect(self._find)
        self._set_up()
        self.add_content(self._laid_out())

    def missing(self, preview: Preview) -> str:
        if preview.known.profile is not None:
            return ""
        if preview.plan.batch is None:
            return (
                "A script builds its own model, which is unknown before it runs. An [estimate] table "
                "describes it for the Memory tab."
            )
        return once_traced(preview, "What the model is made of")

    def fill(self, preview: Preview) -> None:
        profile = preview.known.profile
        if profile is None:
            return
        self.rank.setRange(0, preview.plan.world_size - 1)
        buffers = sum(tensor.size for tensor in profile.buffers)
        self.buffers.setVisible(buffers > 0)
        self.buffers.show_number(size(buffers), "buffers, on every rank", f"{buffers:,} bytes")
        before, tensors = self._laid, profile.parameters
        if before is not None and tensors is before.tensors:
            self._built.forget()
            self._show_rank()
        else:
            self._built.ask(lambda: _lay_out(tensors, before))

    def clear(self) -> None:
        self._built.forget()

    def _set_up(self) -> None:
        self.search.setPlaceholderText("Search names")
        self.search.setClearButtonEnabled(True)
        self.search.setAccessibleName("Search parameters by name")
        self.search.setToolTip("Words that names must have, such as `attention weight`")
        self.search.textChanged.connect(lambda _text: self._typing.start())
        self.rank.setPrefix("rank ")
        self.rank.setAccessibleName("Rank shown")
        self.rank.setToolTip("Rank shown")
        self.rank.setWrapping(True)
        self.rank.valueChanged.connect(lambda _rank: self._show_rank())
        self.copy.setToolTip("Copy what is selected, or all, as columns with tabs (Ctrl+C)")
        self.copy.clicked.connect(self.copy_selected)
        shortcut = QShortcut(QKeySequence(QKeySequence.StandardKey.Copy), self.tree)
        shortcut.setContext(Qt.ShortcutContext.WidgetShortcut)
        shortcut.activated.connect(self.copy_selected)

    def _laid_out(self) -> QWidget:
        content = QWidget()
        content.setMinimumHeight(_LEAST_HEIGHT)  # Qt's own is that of the narrowest width, and of all tabs
        column = QVBoxLayout(content)
        column.setContentsMargins(GRID, 2 * GRID, GRID, GRID)
        column.setSpacing(2 * GRID)
        figures = Flow()
        for figure in (self.count, self.whole, self.held, self.buffers):
            figures.add(figure)
        column.addWidget(figures)
        row = QHBoxLayout()
        row.setSpacing(GRID)
        row.addWidget(self.search, 1)
        row.addWidget(self.rank)
        row.addWidget(self.copy)
        column.addLayout(row)
        column.addWidget(self.tree, 1)
        column.addWidget(self.said)
        return content

    def copy_selected(self) -> None:
        """Copy the selected rows to the clipboard, or all if none is selected."""
        tree, held = self.model.tree, self.model.held
        if tree is None:
            return
        chosen = [self.model.node(index) for index in self.tree.selectionModel().selectedRows()] or [ROOT]
        self._copied.ask(lambda: as_text(tree, held, chosen))

    def _copy_text(self, text: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self.said.setText(f"{counted(text.count(chr(10)) - 1, 'tensor')} copied.")

    def _show_tree(self, laid: _Laid) -> None:
        self._laid = laid
        if laid.tree is not self.model.tree:
            self.model.set_tree(laid.tree)
            self._open_first()
            if self.search.text():
                self._find()
        self._show_rank()

    def _open_first(self) -> None:
        """Expand modules without siblings: there is no choice."""
        index = self.model.index(0, 0)
        while index.isValid() and self.model.rowCount(index.parent()) == 1:
            self.tree.expand(index)
            index = self.model.index(0, 0, index)

    def _show_rank(self) -> None:
        preview, tree = self._preview, self.model.tree
        if preview is None or tree is None or preview.known.profile is None:
            return
        rank = self.rank.value()
        held = None if preview.spec is None else tree.table.held(preview.spec, rank)
        self.model.set_held(held)
        self._show_figures(tree)
        zero = preview.spec is not None and held is None
        self.said.setText(_ZERO if zero else " ")

    def _show_figures(self, tree: ParameterTree) -> None:
        numbers, whole = int(tree.table.elements.sum()), int(tree.table.sizes.sum())
        self.count.show_number(
            number_text(numbers),
            f"parameters in {counted(len(tree.table.tensors), 'tensor')}",
            f"{numbers:,}",
        )
        self.whole.show_number(size(whole), "in all", f"{whole:,} bytes")
        held = self.model.held
        self.held.setVisible(held is not None)
        if held is not None:
            kept = int(held.sizes.sum())
            self.held.show_number(size(kept), f"held by rank {self.rank.value():,}", f"{kept:,} bytes")

    def _find(self) -> None:
        tree, words = self.model.tree, self.search.text()
        if tree is None:
            return
        if not words.strip():
            self._found.forget()
            self.model.set_visible(None)
            self._open_first()
            self.said.setText(" ")
            return
        self._found.ask(lambda: _search(tree, words))

    def _show_found(self, answer: _Found) -> None:
        if answer.tree is not self.model.tree:
            return  # it is searched again
        found = answer.tensors
        self.model.set_visible(answer.visible)
        self.said.setText(f"{counted(found, 'tensor')} found." if found else "No matching names.")
        if 0 < found <= _OPENED:
            self.tree.expandAll()
            self.tree.selectionModel().setCurrentIndex(
                self.model.index(0, 0), QItemSelectionModel.SelectionFlag.NoUpdate
            )


def _lay_out(tensors: tuple[TensorInfo, ...], before: _Laid | None) -> _Laid:
    """Build the tree in a worker, with values computed once per tree; equal parameters keep their tree."""
    if before is not None and before.tensors == tensors:
        return _Laid(tensors, before.tree)
    tree = parameter_tree(tensors, _pause)
    _ = tree.table.elements
    _pause()
    _ = tree.table.row_sizes
    return _Laid(tensors, tree)


def _search(tree: ParameterTree, words: str) -> _Found:
    hits = tree.hits(words, _pause)
    return _Found(tree, int(hits.sum()), tree.sums(hits) > 0)


def _pause() -> None:
    """Sleep in a worker, long enough for the GUI thread to get the GIL, which a busy thread keeps for 5
    ms.
    """
    time.sleep(0.001)


# Tree as a table whose columns share the available width.

_LEAST = {
    Column.NAME: 128,
    Column.SHAPE: 104,
    Column.TYPE: 60,
    Column.SIZE: 74,
    Column.ROWS: 102,
    Column.HELD: 78,
    Column.SHARE: 58,
}
_ROOMY = {
    Column.NAME: 236,
    Column.SHAPE: 132,
    Column.TYPE: 84,
    Column.SIZE: 98,
    Column.ROWS: 156,
    Column.HELD: 98,
    Column.SHARE: 92,
}
"""Width of each column in pixels with little space, and with enough."""


def column_widths(room: int) -> dict[Column, int]:
    """Return all column widths within `room` pixels, if they fit; the name column takes the rest."""
    least, roomy = sum(_LEAST.values()), sum(_ROOMY.values())
    part = min(1.0, max(0.0, (room - least) / (roomy - least)))
    widths = {column: int(_LEAST[column] + part * (_ROOMY[column] - _LEAST[column])) for column in Column}
    widths[Column.NAME] += max(0, room - sum(widths.values()))
    return widths


class ParameterTable(QTreeView):
    """View of a `ParameterModel`."""

    def __init__(self, theme: Theme, model: ParameterModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Parameters of the model")
        self.setModel(model)
        for part in (self, self.header()):
            part.setFont(font(Type.SMALL))
        self.setUniformRowHeights(True)
        self.setIndentation(14)
        self.setStyleSheet("QTreeView::item { padding: 0 5px; }")  # same as the header's
        self.setSelectionMode(QTreeView.SelectionMode.ExtendedSelection)
        self.setItemDelegateForColumn(Column.ROWS, RowsDelegate(theme, self))
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.header().setStretchLastSection(False)
        self.header().setMinimumSectionSize(40)
        self.header().sectionResized.connect(self._resized)
        self._own: set[int] = set()
        self._sharing = False
        theme.changed.connect(self.viewport().update)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._sharing = True
        for column, width in column_widths(self.viewport().width()).items():
            if column not in self._own:
                self.setColumnWidth(column, width)
        self._sharing = False

    def _resized(self, column: int, _old: int, _new: int) -> None:
        """Keep the width of a column that the user has resized."""
        if not self._sharing:
            self._own.add(column)


_HEIGHT = 3
_INSET = 4
_ROW = 28


class RowsDelegate(QStyledItemDelegate):
    """Delegate for the column of held rows."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().paint(painter, option, index)
        part = index.data(BAR)
        if part is None:
            return
        area = QRectF(option.rect)
        track = QRectF(area.left() + _INSET, area.bottom() - _HEIGHT - 1, area.width() - 2 * _INSET, _HEIGHT)
        painter.fillRect(track, self._theme.colour("line"))
        begin, end = part
        if end > begin:
            width = max(1.0, (end - begin) * track.width())
            held = QRectF(track.left() + begin * track.width(), track.top(), width, _HEIGHT)
            painter.fillRect(held, self._theme.palette.series[0])

    def sizeHint(  # noqa: N802 - Qt's name
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QSize:
        hint = super().sizeHint(option, index)
        return QSize(hint.width(), max(hint.height(), _ROW))
