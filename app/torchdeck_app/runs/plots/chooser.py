"""The user's choice of plots, its storage, and the dialog to choose, hide and sort plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

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
from torchdeck.runs.plots.x_axis import X_NAMES, XKind
from torchdeck.shown_text import shown
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


# The user's choice of plots, and its storage.

MOST_SMOOTHING = 0.999


@dataclass(frozen=True)
class Choices:
    """Choice of plots, shared by all runs."""

    kind: XKind = "step"
    log_x: bool = False
    log_y: frozenset[str] = frozenset()
    """Keys of plots with a logarithmic y axis."""
    smoothing: float = 0.0
    order: tuple[str, ...] = ()
    """Keys in the user's order; others follow in the catalogue's order."""
    shown: Mapping[str, bool] = field(default_factory=dict)
    """Key → whether it is shown, if the user decided."""

    def is_shown(self, metric: Metric) -> bool:
        """Return whether the plot is in the grid."""
        return self.shown.get(metric.key, metric.shown)

    def sorted(self, metrics: Sequence[Metric]) -> list[Metric]:
        """Return all plots in the order of the grid."""
        places = {key: number for number, key in enumerate(self.order)}
        if not places:
            return list(metrics)
        return sorted(metrics, key=lambda metric: places.get(metric.key, len(places)))

    def on_board(self, metrics: Sequence[Metric]) -> list[Metric]:
        """Return the shown plots in order."""
        return [metric for metric in self.sorted(metrics) if self.is_shown(metric)]

    def with_shown(self, key: str, *, on: bool) -> Choices:
        """Return a copy with one plot shown or hidden."""
        return replace(self, shown={**self.shown, key: on})

    def with_log_y(self, key: str, *, on: bool) -> Choices:
        """Return a copy with one plot's y axis logarithmic or linear."""
        return replace(self, log_y=self.log_y | {key} if on else self.log_y - {key})

    def to_json(self) -> dict[str, Any]:
        """Return the choices as JSON values."""
        return {
            "axis": self.kind,
            "log_x": self.log_x,
            "log_y": sorted(self.log_y),
            "smoothing": self.smoothing,
            "order": list(self.order),
            "shown": dict(self.shown),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Choices:
        """Restore choices from `to_json`; invalid entries are ignored."""
        kind, smoothing, shown = value.get("axis"), value.get("smoothing"), value.get("shown")
        return cls(
            kind if kind in X_NAMES else "step",
            value.get("log_x") is True,
            frozenset(_texts(value.get("log_y"))),
            min(max(float(smoothing), 0.0), MOST_SMOOTHING) if isinstance(smoothing, (int, float)) else 0.0,
            tuple(_texts(value.get("order"))),
            {key: on for key, on in shown.items() if isinstance(on, bool)} if isinstance(shown, dict) else {},
        )


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
