"""How busy each core of a machine is, a bar a core."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QSizePolicy, QWidget

from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.chart import Chart

_HEIGHT = 32
_INSET = 3
_SIDE = 1
"""Room for the frame of the focus, above and beside."""
_WIDEST = 24
_GAPS = ((6, 2), (3, 1))
"""From so many pixels a core on, so many of them are a gap."""


class CoreBars(Chart):
    """Bars side by side, as wide as there is room; its marks are the cores."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Load of each core", parent)
        self._loads: tuple[float, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_loads(self, loads: tuple[float, ...]) -> None:
        """Percent of each core."""
        self._loads = loads
        self.changed()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(160, self.fontMetrics().height() + 4 + _HEIGHT + 2 * _INSET)

    def marks(self) -> int:
        return len(self._loads)

    def mark_at(self, place: QPointF) -> int | None:
        field = self._field()
        if not self._loads or not field.contains(place):
            return None
        return min(int((place.x() - field.left()) / field.width() * len(self._loads)), len(self._loads) - 1)

    def text_of(self, mark: int) -> str:
        return f"core {mark}: {self._loads[mark]:.0f} %"

    def draw(self, painter: QPainter) -> None:
        field, count = self._field(), len(self._loads)
        line = QRectF(_SIDE, _INSET, self.width() - 2 * _SIDE, self.fontMetrics().height())
        painter.setPen(self._theme.colour("secondary"))
        painter.drawText(line, Qt.AlignmentFlag.AlignLeft, f"{count} cores" if count > 1 else "Cores")
        if not count:
            return
        painter.setPen(self._theme.colour("text"))
        painter.drawText(line, Qt.AlignmentFlag.AlignRight, self._said())
        each = field.width() / count
        gap = next((gap for least, gap in _GAPS if each >= least), 0)
        for core, load in enumerate(self._loads):
            left, right = round(field.left() + core * each), round(field.left() + (core + 1) * each) - gap
            ground = QRectF(left, field.top(), right - left, field.height())
            painter.fillRect(ground, self._theme.colour("raised"))
            filled = field.height() * load / 100
            colour = self._theme.palette.accent if core == self.mark else self._theme.palette.series[0]
            painter.fillRect(QRectF(left, field.bottom() - filled, right - left, filled), colour)

    def _said(self) -> str:
        """The core that is pointed at, or else the busiest one."""
        if self.mark is not None:
            return self.text_of(self.mark)
        busiest = max(range(len(self._loads)), key=self._loads.__getitem__)
        return f"busiest: {self.text_of(busiest)}"

    def _field(self) -> QRectF:
        width = min(self.width() - 2 * _SIDE, max(1, len(self._loads)) * _WIDEST)
        return QRectF(_SIDE, _INSET + self.fontMetrics().height() + 4, width, _HEIGHT)
