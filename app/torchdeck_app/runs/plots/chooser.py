"""Dialog to choose, hide and sort plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from torchdeck.runs.plots.catalogue import Metric
from torchdeck.shown_text import shown
from torchdeck_app.runs.plots.choices import Choices
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, label

_KEY = Qt.ItemDataRole.UserRole


class MetricChooser(QDialog):
    """Dialog with a checkbox per plot, in the order of the grid; changes apply at once."""

    chosen = Signal(object)
    """Emitted with the changed Choices."""

    def __init__(self, metrics: Sequence[Metric], choices: Choices, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Metrics")
        self.setMinimumSize(360, 420)
        self._choices = choices
        self._find = QLineEdit()
        self._find.setPlaceholderText("Find a metric")
        self._find.setAccessibleName("Find a metric")
        self._find.setClearButtonEnabled(True)
        self._find.textChanged.connect(self._filter)
        self.list = QListWidget()
        self.list.setAccessibleName("Plots")
        self.list.setToolTip("Space shows or hides; Alt+Up and Alt+Down move, as dragging does")
        self.list.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        for metric in choices.sorted(metrics):
            item = QListWidgetItem(shown(metric.title))
            item.setData(_KEY, metric.key)
            item.setToolTip(plain_tip(metric.about))
            is_on = choices.is_shown(metric)
            item.setCheckState(Qt.CheckState.Checked if is_on else Qt.CheckState.Unchecked)
            self.list.addItem(item)
        self.list.itemChanged.connect(self._tell)
        self.list.model().rowsMoved.connect(self._tell)
        self._lay_out()

    def shift(self, by: int) -> None:
        """Move the selected plot up (-1) or down (1)."""
        row = self.list.currentRow()
        if row < 0 or not 0 <= row + by < self.list.count():
            return
        item = self.list.takeItem(row)
        self.list.insertItem(row + by, item)
        self.list.setCurrentRow(row + by)
        self._tell()

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setSpacing(GRID)
        column.addWidget(self._find)
        column.addWidget(self.list, 1)
        column.addWidget(label("Drag to reorder.", role="secondary"))
        row = QHBoxLayout()
        for text, tip, keys, by in (
            ("Up", "Move up (Alt+Up)", "Alt+Up", -1),
            ("Down", "Move down (Alt+Down)", "Alt+Down", 1),
        ):
            button = QPushButton(text)
            button.setToolTip(tip)
            button.setShortcut(keys)
            button.setAutoDefault(False)
            button.clicked.connect(lambda _checked=False, by=by: self.shift(by))
            row.addWidget(button)
        row.addStretch(1)
        close = QPushButton("Close")
        close.setToolTip("Close (Esc)")
        close.clicked.connect(self.accept)
        row.addWidget(close)
        column.addLayout(row)

    def _filter(self, text: str) -> None:
        for number in range(self.list.count()):
            item = self.list.item(number)
            about = f"{item.text()} {item.toolTip()}".lower()
            item.setHidden(text.lower() not in about)

    def _tell(self) -> None:
        items = [self.list.item(number) for number in range(self.list.count())]
        shown = {item.data(_KEY): item.checkState() == Qt.CheckState.Checked for item in items}
        order = tuple(item.data(_KEY) for item in items)
        self._choices = replace(self._choices, order=order, shown={**self._choices.shown, **shown})
        self.chosen.emit(self._choices)
