"""Grid of all GPUs across nodes; without any, a hint where they come from."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QFrame, QListView, QStackedWidget, QVBoxLayout, QWidget

from torchdeck.nodes.gpus.gpu_now import GpuNow
from torchdeck_app.nodes.gpus.gpu_looks import count_words
from torchdeck_app.nodes.gpus.gpu_model import GpuModel
from torchdeck_app.nodes.gpus.gpu_tile import GpuTile
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import ElidedLabel, plain_tip
from torchdeck_app.widgets.panel import GRID, EmptyState

MANY = 24
"""Number of GPUs from which tiles are compact."""
_LEAST, _LEAST_COMPACT = 264, 200
"""Minimum widths of a tile in pixels."""
_EMPTY = (
    "NVIDIA GPUs of this machine and of the nodes in the inventory appear here: what they do, who holds them "
    "and until when."
)


class GpuGrid(QStackedWidget):
    """Tiles of all GPUs, with a line that counts them."""

    opened = Signal(object)
    """Emitted with the key of a GPU that was clicked or chosen by Enter."""
    add_asked = Signal()

    def __init__(self, theme: Theme, model: GpuModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self.view = _TileView(theme)
        self.view.setModel(model)
        self.view.setAccessibleName("GPUs of all nodes")
        self.view.clicked.connect(self._open)
        self.view.chosen.connect(self._open)
        theme.changed.connect(self.view.viewport().update)
        self.counts = ElidedLabel()
        inside = QWidget()
        column = QVBoxLayout(inside)
        column.setContentsMargins(2 * GRID, GRID, GRID, 0)
        column.setSpacing(GRID)
        column.addWidget(self.counts)
        column.addWidget(self.view, 1)
        self.empty = EmptyState(
            theme, "nodes", "No GPUs", _EMPTY, button="Add a node …", pressed=self.add_asked.emit
        )
        self.empty.button.setToolTip("Add a node to the node inventory")
        self.addWidget(self.empty)
        self.addWidget(inside)

    def show_gpus(self, gpus: Sequence[GpuNow], now: float, waiting: int) -> None:
        """Show these; `waiting` is the number of nodes that have not answered yet."""
        current = self.view.currentIndex()
        key = self._model.gpu(current.row()).key if current.isValid() else None
        if self._model.show_gpus(gpus, now):
            self.view.fit(is_compact=len(gpus) >= MANY)
            row = None if key is None else self._model.row_of(key)
            if row is not None:
                self.view.setCurrentIndex(self._model.index(row))
        text = count_words(gpus) if gpus else ""
        if waiting and gpus:
            text += f"; connecting to {waiting} node{'s' * (waiting != 1)} …"
        if text != self.counts.text():
            self.counts.setText(text)
            self.counts.setToolTip(plain_tip(text))
        self.empty.set_title(
            f"Connecting to {waiting} node{'s' * (waiting != 1)} …" if waiting else "No GPUs"
        )
        self.setCurrentIndex(1 if gpus else 0)

    def _open(self, index: QModelIndex) -> None:
        if index.isValid():
            self.opened.emit(self._model.gpu(index.row()).key)


class _TileView(QListView):
    """Tiles of equal size that fill the width."""

    chosen = Signal(QModelIndex)
    """Emitted on Enter or Space."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tile = GpuTile(theme, self)
        self.setItemDelegate(self._tile)
        self.setProperty("role", "tiles")
        self.setViewMode(QListView.ViewMode.IconMode)
        self.setMovement(QListView.Movement.Static)
        self.setResizeMode(QListView.ResizeMode.Adjust)
        self.setUniformItemSizes(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMouseTracking(True)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def fit(self, *, is_compact: bool) -> None:
        """Lay the tiles out again."""
        self._tile.is_compact = is_compact
        self._lay()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._lay()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.chosen.emit(self.currentIndex())
        else:
            super().keyPressEvent(event)

    def _lay(self) -> None:
        # with room for a scroll bar even if there is none, so that it may come and go
        room = self.width() - self.verticalScrollBar().sizeHint().width() - 1
        columns = max(1, room // (_LEAST_COMPACT if self._tile.is_compact else _LEAST))
        wanted = QSize(room // columns, self._tile.height())
        if wanted != self.gridSize():
            self._tile.width = wanted.width()
            self.setGridSize(wanted)
