"""What the colours and marks of memory's bars mean, with how much of each the fullest rank has."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.preview.terms import TERMS, by_family
from torchdeck.quantities import size
from torchdeck_app.launch.preview.memory.colours import term_colour
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.flow import Flow
from torchdeck_app.widgets.panel import GRID, label

Mark = Literal["range", "capacity", "taken"]
_MARKS: tuple[tuple[Mark, str], ...] = (
    ("capacity", "what the device has"),
    ("range", "where the peak is expected"),
    ("taken", "in use by others now"),
)
_SIDE = 12


class Swatch(QWidget):
    """A small sample of a colour or a mark."""

    def __init__(self, theme: Theme, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme, self._name = theme, name
        self.setFixedSize(QSize(_SIDE, _SIDE))
        theme.changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 - Qt's name
        painter = QPainter(self)
        text = self._theme.colour("text")
        match self._name:
            case "range":
                painter.fillRect(QRectF(0, 5, _SIDE, 3), text)
            case "capacity":
                painter.fillRect(QRectF(_SIDE / 2 - 1, 0, 2, _SIDE), text)
            case "taken":
                hatched = QBrush(text, Qt.BrushStyle.BDiagPattern)
                painter.fillRect(QRectF(self.rect()), hatched)
            case name:
                painter.fillRect(QRectF(self.rect()), term_colour(name, self._theme.palette))
        painter.end()


class Legend(QWidget):
    """Six parts, always in the same colours and order; below, the marks that are in sight."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._entries = {term.name: Entry(theme, term.name) for term in TERMS}
        self._marks = {name: Entry(theme, name, text) for name, text in _MARKS}
        flow = Flow(across=2 * GRID)
        for entry in (*self._entries.values(), *self._marks.values()):
            flow.add(entry)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(flow)

    def show_memory(self, memory: PredictedMemory, *, marks: set[str]) -> None:
        """The parts of `memory`, and those of the marks that are in sight."""
        parts = by_family(memory.terms)
        for name, entry in self._entries.items():
            entry.show_size(parts.get(name, 0))
        for name, entry in self._marks.items():
            entry.setVisible(name in marks)


class Entry(QWidget):
    """A swatch and its name, with a size where it has one."""

    def __init__(self, theme: Theme, name: str, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = name
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        self.text = label(text or name, Type.SMALL, "secondary" if text else "")
        row.addWidget(Swatch(theme, name))
        row.addWidget(self.text)

    def show_size(self, count: int) -> None:
        """Bytes of it; a part that there is none of stays, dim."""
        self.text.setText(f"{self._name} {size(count)}" if count else self._name)
        self.text.setToolTip(f"{count:,} bytes")
        self.text.setEnabled(count > 0)
