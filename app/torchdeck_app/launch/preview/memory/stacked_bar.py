"""What memory is needed for, as one stacked bar against what the device has."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QPainter, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.preview.headline import percent
from torchdeck.plan.preview.terms import family_of
from torchdeck.quantities import size
from torchdeck_app.launch.preview.memory.bar_layout import BarLayout, lay_out
from torchdeck_app.launch.preview.memory.colours import term_colour
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.chart import Chart

_BAR = 18
_RANGE = 3
_ABOVE = 3
_PARTED = 4
"""Parts of so many pixels or more have a line of the ground behind them."""


class StackedBar(Chart):
    """The parts of one group's peak; its marks are the parts."""

    def __init__(self, theme: Theme, name: str, parent: QWidget | None = None) -> None:
        super().__init__(theme, name, parent)
        self._memory: PredictedMemory | None = None
        self._scale = 1.0
        self._numbered = True
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_memory(self, memory: PredictedMemory, scale: float, *, numbered: bool = True) -> None:
        """Show `memory`; the whole width is `scale` bytes; `numbered`: with the capacity above its line."""
        self._memory, self._scale = memory, max(scale, 1.0)
        if numbered != self._numbered:
            self._numbered = numbered
            self.updateGeometry()
        self.changed()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(240, self._top() + _BAR + _RANGE + 4)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(120, self.sizeHint().height())

    def marks(self) -> int:
        layout = self._layout()
        return 0 if layout is None else len(layout.segments)

    def mark_at(self, place: QPointF) -> int | None:
        layout = self._layout()
        return None if layout is None else layout.segment_at(place.x() - 1)

    def text_of(self, mark: int) -> str:
        layout, memory = self._layout(), self._memory
        if layout is None or memory is None or mark >= len(layout.segments):
            return ""
        part = layout.segments[mark]
        share = part.size / memory.peak_bytes if memory.peak_bytes else 0.0
        text = f"{part.name}: {size(part.size)}, {percent(share)} of {size(memory.peak_bytes)}"
        inside = [
            f"{name} {size(count)}"
            for name, count in memory.terms.items()
            if count > 0 and name != part.name and family_of(name) == part.name
        ]
        return f"{text}; of it {', '.join(inside)}" if inside else text

    def draw(self, painter: QPainter) -> None:
        layout = self._layout()
        if layout is None:
            return
        top = self._top()
        painter.fillRect(QRectF(1, top, self._width(), _BAR), self._theme.colour("raised"))
        for index, segment in enumerate(layout.segments):
            width = segment.right - segment.left
            part = QRectF(1 + segment.left, top, width - (width >= _PARTED), _BAR)
            painter.fillRect(part, term_colour(segment.name, self._theme.palette))
            if index == self.mark:
                painter.setPen(QPen(self._theme.colour("text"), 2))
                painter.drawRect(part.adjusted(1, 1, -1, -1))
        self._draw_taken(painter, layout)
        text = self._theme.colour("text")
        painter.fillRect(
            QRectF(1 + layout.low, top + _BAR + 2, max(2, layout.high - layout.low), _RANGE), text
        )
        self._draw_capacity(painter, layout)

    @property
    def above(self) -> int:
        """Pixels above the bar itself."""
        return self._top()

    def _layout(self) -> BarLayout | None:
        if self._memory is None or self._width() < 1:
            return None
        return lay_out(self._memory, self._scale, self._width())

    def _width(self) -> int:
        return self.width() - 3

    def _top(self) -> int:
        return _ABOVE + (self.fontMetrics().height() if self._numbered else 0)

    def _draw_taken(self, painter: QPainter, layout: BarLayout) -> None:
        """Hatched: what others use of the device now."""
        if layout.free is None:
            return
        end = self._width() if layout.capacity is None else layout.capacity
        place = QRectF(1 + layout.free, self._top(), end - layout.free, _BAR)
        painter.fillRect(place, QBrush(self._theme.colour("text"), Qt.BrushStyle.BDiagPattern))

    def _draw_capacity(self, painter: QPainter, layout: BarLayout) -> None:
        if self._memory is None or self._memory.capacity_bytes is None:
            return
        number = size(self._memory.capacity_bytes)
        line = self.fontMetrics().height()
        painter.setPen(self._theme.colour("secondary"))
        if layout.capacity is None:
            if self._numbered:
                place = QRectF(0, 0, self._width(), line)
                painter.drawText(place, Qt.AlignmentFlag.AlignRight, f"{number} →")
            return
        at = 1 + layout.capacity
        if self._numbered:
            needed = self.fontMetrics().horizontalAdvance(number) + 1
            left = min(max(0.0, at - needed / 2), self.width() - needed - 4)
            painter.drawText(QRectF(left, 0, needed, line), 0, number)
        painter.fillRect(
            QRectF(at - 1, self._top() - _ABOVE, 2, _BAR + 2 * _ABOVE), self._theme.colour("text")
        )
