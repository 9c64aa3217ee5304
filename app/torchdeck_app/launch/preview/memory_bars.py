"""Rows of stacked memory bars: name, bar, numbers, and a button if there is a choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPen
from PySide6.QtWidgets import QGridLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.memory.fullness import fullness
from torchdeck.plan.preview.memory_bars import TERMS, VERDICT_SIGNS, by_family, family_of
from torchdeck.plan.preview.preview import percent
from torchdeck.quantities import size
from torchdeck_app.launch.preview.headline import VERDICT_COLOURS
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.palette import ColourName, Palette
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.chart import Chart
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, label

_NUMBERS = 128
"""Pixels reserved for numbers, so that bars do not move with them."""


@dataclass(frozen=True)
class BarRow:
    """One row."""

    name: str
    memory: PredictedMemory | None
    """None if unknown."""
    below: str = ""
    """Text below the bar, or in place of it if there is none."""
    chosen: bool = False
    choice: str = ""
    """Choice of the button; empty: no button."""


class BarRows(QWidget):
    """Rows that share one scale. Widgets are reused by the next preview."""

    def __init__(
        self,
        theme: Theme,
        pointed: Callable[[str], None],
        chosen: Callable[[str], None] | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme, self._pointed, self._choose = theme, pointed, chosen
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(2 * GRID)
        self._grid.setVerticalSpacing(GRID // 2)
        self._grid.setColumnStretch(1, 1)
        self._grid.setColumnMinimumWidth(2, _NUMBERS)
        self._rows: list[_Row] = []
        theme.changed.connect(self._paint_verdicts)

    @property
    def bars(self) -> list[StackedBar]:
        """Return the bars of the visible rows."""
        return [row.bar for row in self._rows if not row.bar.isHidden()]

    def button(self, choice: str) -> QPushButton | None:
        """Return the button for `choice`."""
        for row in self._rows:
            if row.choice == choice and not row.button.isHidden():
                return row.button
        return None

    def show_rows(self, rows: Sequence[BarRow], scale: float) -> None:
        """Show `rows`; the whole of a bar is `scale` bytes."""
        while len(self._rows) < len(rows):
            self._rows.append(self._made(len(self._rows)))
        numbered: int | None = None
        for made, row in zip(self._rows, rows, strict=False):
            capacity = None if row.memory is None else row.memory.capacity_bytes
            made.show_row(row, scale, numbered=capacity is not None and capacity != numbered)
            numbered = capacity if capacity is not None else numbered
        for made in self._rows[len(rows) :]:
            made.hide()
        self._paint_verdicts()

    def _made(self, index: int) -> _Row:
        row = _Row(self._theme)
        row.bar.pointed.connect(self._pointed)
        top, line = Qt.AlignmentFlag.AlignTop, 2 * index
        self._grid.addWidget(row.name, line, 0, top)
        self._grid.addWidget(row.bar, line, 1, top)
        self._grid.addWidget(row.numbers, line, 2, top)
        self._grid.addWidget(row.below, line + 1, 1, 1, 3)
        if self._choose is not None:
            choose = self._choose
            row.button.clicked.connect(lambda: choose(row.choice))
            self._grid.addWidget(row.button, line, 3, top)
            self._grid.addWidget(row.marked, line, 3, top)
        return row

    def _paint_verdicts(self) -> None:
        for row in self._rows:
            row.verdict.setStyleSheet(f"color: {self._theme.colour(row.colour).name()};")


class _Row:
    """Widgets of one row."""

    def __init__(self, theme: Theme) -> None:
        self.choice = ""
        self.colour: ColourName = "quiet"
        self.name = label()
        self.name.setMaximumWidth(160)
        self.numbers = QWidget()
        self.bar = StackedBar(theme, "memory")
        self.below = label("", Type.SMALL, "secondary", wrap=True)
        self.below.setContentsMargins(0, 0, 0, GRID)
        self.peak, self.verdict = label(), label("", Type.SMALL)
        self.button, self.marked = QPushButton("Use"), label("✓ chosen", role="secondary")
        column = QVBoxLayout(self.numbers)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addWidget(self.peak)
        column.addWidget(self.verdict)
        for text in (self.name, self.below, self.peak, self.verdict):
            text.setTextFormat(Qt.TextFormat.PlainText)

    def show_row(self, row: BarRow, scale: float, *, numbered: bool) -> None:
        memory = row.memory
        self.choice = row.choice
        _set(self.name, row.name)
        _set(self.below, row.below)
        self.bar.setVisible(memory is not None)
        self.numbers.setVisible(memory is not None)
        if memory is not None:
            self.bar.setAccessibleName(f"Memory of {row.name}")
            self.bar.set_memory(memory, scale, numbered=numbered)
            self._show_numbers(memory)
            above = max(0, self.bar.above - 4)
            for text in (self.name, self.peak, self.marked):
                text.setContentsMargins(0, above, 0, 0)
        else:
            self.name.setContentsMargins(0, 0, 0, 0)
        self.name.show()
        self.marked.setVisible(row.chosen)
        self.button.setVisible(bool(row.choice) and not row.chosen)
        self.button.setAccessibleName(f"Use {row.name}")
        self.button.setToolTip(f"Write {row.name} into the run file; can be undone")

    def hide(self) -> None:
        for widget in (self.name, self.bar, self.numbers, self.below, self.button, self.marked):
            widget.hide()

    def _show_numbers(self, memory: PredictedMemory) -> None:
        share = fullness(memory)
        filled = "" if share is None else f", {percent(share)}"
        self.peak.setText(size(memory.peak_bytes))
        self.peak.setToolTip(
            f"{memory.peak_bytes:,} bytes; expected are {size(memory.low_bytes)} to {size(memory.high_bytes)}"
        )
        self.verdict.setText(f"{VERDICT_SIGNS[memory.verdict]} {memory.verdict}{filled}")
        self.colour = VERDICT_COLOURS[memory.verdict]


def _set(text: QLabel, value: str) -> None:
    text.setText(value)
    text.setToolTip(plain_tip(value))
    text.setVisible(bool(value))


_BAR = 18
_RANGE = 3
_ABOVE = 3
_PARTED = 4
"""Minimum width in pixels of parts that are separated by a line."""


class StackedBar(Chart):
    """Bar with the parts of one group's peak; its marks are the parts."""

    def __init__(self, theme: Theme, name: str, parent: QWidget | None = None) -> None:
        super().__init__(theme, name, parent)
        self._memory: PredictedMemory | None = None
        self._scale = 1.0
        self._numbered = True
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_memory(self, memory: PredictedMemory, scale: float, *, numbered: bool = True) -> None:
        """Show `memory` with `scale` bytes as the full width; `numbered`: with the capacity above its
        line.
        """
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
        """Return the pixels above the bar itself."""
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
        """Hatch the device memory that other processes use now."""
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


# Stacked bar in pixels. No Qt.


@dataclass(frozen=True)
class Segment:
    """Part of a bar, from `left` (inclusive) to `right` (exclusive)."""

    name: str
    """Name from `torchdeck.plan.preview.memory_bars.TERMS`."""
    size: int
    """Bytes."""
    left: int
    right: int


@dataclass(frozen=True)
class BarLayout:
    """Bar and its marks, in pixels from its left end; None if a mark is beyond the bar or unknown."""

    segments: tuple[Segment, ...]
    low: int
    """Lower bound; the peak is expected between this and the upper one."""
    high: int
    capacity: int | None
    free: int | None
    """End of the memory that is free now, if that is before the capacity."""

    def segment_at(self, x: float) -> int | None:
        """Return the index of the segment at `x`; for one too thin to be hit, its neighbour."""
        for index, segment in enumerate(self.segments):
            if segment.left <= x < segment.right:
                return index
        return None


def lay_out(memory: PredictedMemory, scale: float, width: int) -> BarLayout:
    """Return the bar of `memory` with `scale` bytes per `width` pixels; segments are adjacent without gaps.

    Raises:
        ValueError: the scale is not above 0.
    """
    if scale <= 0:
        raise ValueError(f"a scale of {scale} bytes has no length: it must be above 0")
    segments = _segments(by_family(memory.terms), scale, width)

    def place(size: int | None) -> int | None:
        return None if size is None or size > scale else round(size / scale * width)

    capacity, free = memory.capacity_bytes, memory.free_bytes
    taken = capacity is not None and free is not None and free < capacity
    return BarLayout(
        segments,
        low=min(width, round(memory.low_bytes / scale * width)),
        high=min(width, round(memory.high_bytes / scale * width)),
        capacity=place(capacity),
        free=place(free) if taken else None,
    )


def _segments(parts: Mapping[str, int], scale: float, width: int) -> tuple[Segment, ...]:
    made = []
    reached, left = 0, 0
    for name, length in parts.items():
        reached += length
        right = min(width, round(reached / scale * width))
        made.append(Segment(name, length, left, right))
        left = right
    return tuple(made)


def term_colour(name: str, palette: Palette) -> QColor:
    """Return the colour of a part by its name."""
    colours = {term.name: term.light if palette.scheme == "light" else term.dark for term in TERMS}
    return QColor(colours[name])
