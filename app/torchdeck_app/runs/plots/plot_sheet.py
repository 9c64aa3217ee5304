"""Layout of the plots: the large loss, the marker strip, then rows of small plots."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from PySide6.QtCore import QEvent, QLineF, QPoint, QPointF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QHelpEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QPolygonF,
    QResizeEvent,
)
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QToolTip, QVBoxLayout, QWidget

from torchdeck.quantities import counted
from torchdeck.runs.plots.catalogue import LOSS, Metric
from torchdeck.runs.plots.entries import Entry
from torchdeck.runs.plots.exchange import Moments, PlotData
from torchdeck.runs.plots.x_axis import Across
from torchdeck_app.runs.plots.canvas import PlotCanvas
from torchdeck_app.runs.plots.geometry import RIGHT_MIDDLE, Scale, plot_font, plot_width
from torchdeck_app.runs.plots.legend import ValueBox
from torchdeck_app.runs.plots.overlay import Mark
from torchdeck_app.runs.plots.painting import LEFT, RIGHT
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID

_LARGE, _SMALL = 232, 168
"""Heights of the loss and of the other plots in pixels."""
_LEAST = 136
"""Minimum height of the loss in pixels, to keep its axis and the strip below visible."""
_NARROWEST = 296
_AT_A_TIME = 0.006
"""Seconds of drawing per turn of the event loop."""


class PlotSheet(QWidget):
    """Container of the plots; it forwards events of one plot for all."""

    pointed = Signal(object)
    zoom_asked = Signal(object)
    menu_asked = Signal(PlotCanvas, QPoint)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._canvases: dict[str, PlotCanvas] = {}
        self._across: Across | None = None
        self._shown: list[str] = []
        self._wide = 0
        self._large = _LARGE
        self.has_strip = True
        """Marks are of one run: where several are compared there are none."""
        self._waiting: dict[str, tuple[Metric, PlotData]] = {}
        self._turn = QTimer(self, singleShot=True, interval=0)
        self._turn.timeout.connect(self._draw_some)
        self._box = ValueBox(theme, self)
        self.strip = MarkStrip(theme)
        self.strip.hide()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, GRID, GRID)
        column.setSpacing(0)
        self._top = QVBoxLayout()
        self._grid = QGridLayout()
        self._grid.setSpacing(GRID)
        column.addLayout(self._top)
        column.addWidget(self.strip)
        column.addSpacing(GRID)
        column.addLayout(self._grid)
        column.addStretch(1)
        self.setAutoFillBackground(True)
        theme.changed.connect(self._colour)
        self._colour()

    def canvas(self, key: str) -> PlotCanvas:
        """Return the plot of that key; KeyError if it is not in the grid."""
        return self._canvases[key]

    @property
    def shown(self) -> list[str]:
        """Return the keys of the plots in the grid, in order."""
        return list(self._shown)

    def current(self) -> PlotCanvas | None:
        """Return the focused plot, else the first one."""
        canvases = [self._canvases[key] for key in self._shown]
        return next((canvas for canvas in canvases if canvas.hasFocus()), canvases[0] if canvases else None)

    def arrange(self, metrics: Sequence[Metric], log_y: Collection[str]) -> None:
        """Show these plots in this order."""
        wanted = [metric.key for metric in metrics]
        for key in [key for key in self._canvases if key not in wanted]:
            canvas = self._canvases.pop(key)
            canvas.hide()
            canvas.deleteLater()
        for metric in metrics:
            if metric.key not in self._canvases:
                self._canvases[metric.key] = self._made(metric)
            self._canvases[metric.key].set_log_y(on=metric.key in log_y)
        self._shown = wanted
        self._wide = 0
        self._lay_out()

    def show_plots(self, metrics: Sequence[Metric], plots: Mapping[str, PlotData]) -> None:
        """Draw new data."""
        known = {metric.key: metric for metric in metrics}
        self._waiting |= {key: (known[key], data) for key, data in plots.items() if key in known}
        self._turn.start()

    def draw_all(self) -> None:
        """Draw all pending plots at once."""
        while self._waiting:
            self._draw_some()

    def _draw_some(self) -> None:
        """Draw pending plots for a few milliseconds; the rest in the event loop's next turn."""
        begun = time.perf_counter()
        for key in [key for key in self._shown if key in self._waiting]:
            canvas = self._canvases[key]
            canvas.show_data(*self._waiting.pop(key))
            if self._across is not None:
                canvas.set_across(self._across)
            canvas.draw()
            if time.perf_counter() - begun > _AT_A_TIME:
                self._turn.start()
                return
        self._waiting.clear()

    def set_across(self, across: Across, moments: Moments) -> None:
        """Show this range of x in all plots; pending ones follow when they are drawn."""
        self._across = across
        for key, canvas in self._canvases.items():
            if key not in self._waiting:
                canvas.set_across(across)
        self.strip.set_across(across, moments)

    def set_cursor(self, x: float | None) -> None:
        """Show the cursor in all plots."""
        for canvas in self._canvases.values():
            canvas.set_cursor(x)

    def set_room(self, height: int) -> None:
        """Set the visible height in pixels; the loss shrinks to fit."""
        strip = self.strip.sizeHint().height() if self.has_strip else 0
        large = min(_LARGE, max(_LEAST, height - strip))
        if large != self._large:
            self._large = large
            if LOSS in self._shown:
                self._canvases[LOSS].setFixedHeight(large)

    def in_sight(self) -> tuple[tuple[str, int], ...]:
        """Return (key, pixel columns) of the visible plots."""
        return tuple(
            (key, self._canvases[key].columns)
            for key in self._shown
            if not self._canvases[key].visibleRegion().isEmpty()
        )

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._lay_out()

    def _made(self, metric: Metric) -> PlotCanvas:
        canvas = PlotCanvas(self._theme, metric)
        canvas.pointed.connect(self.pointed)
        canvas.zoom_asked.connect(self.zoom_asked)
        canvas.told.connect(lambda entries: self._tell(canvas, entries))
        canvas.menu_asked.connect(lambda at: self.menu_asked.emit(canvas, at))
        if self._across is not None:
            canvas.set_across(self._across)
        return canvas

    def _tell(self, canvas: PlotCanvas, entries: Sequence[Entry]) -> None:
        """Show the values under the pointer next to the plot, not over it."""
        if not entries:
            self._box.hide()
            return
        at = canvas.mapTo(self, canvas.pointer)
        top = canvas.mapTo(self, QPoint(0, 0)).y()
        self._box.show_at(entries, at.x(), top, top + canvas.height())

    def _lay_out(self) -> None:
        wide = max(1, self.width() // _NARROWEST)
        if wide == self._wide:
            return
        self._wide = wide
        for layout in (self._top, self._grid):
            while layout.count():
                layout.takeAt(0)
        large = [key for key in self._shown if key == LOSS]
        small = [key for key in self._shown if key != LOSS]
        for key in large:
            self._canvases[key].setFixedHeight(self._large)
            self._top.addWidget(self._canvases[key])
        for number, key in enumerate(small):
            self._canvases[key].setFixedHeight(_SMALL)
            self._grid.addWidget(self._canvases[key], number // wide, number % wide)
        for column in range(self._grid.columnCount()):
            self._grid.setColumnStretch(column, 1 if column < wide else 0)
        self.strip.setVisible(self.has_strip and bool(self._shown))
        order = [self._canvases[key] for key in large + small]
        for first, second in pairwise(order):
            QWidget.setTabOrder(first, second)

    def _colour(self) -> None:
        palette = self.palette()
        palette.setColor(QPalette.ColorRole.Window, self._theme.colour("surface"))
        self.setPalette(palette)


# Strip under the loss: attempts and checkpoints at the time they happened.

_HEIGHT = 24
_REACH = 6
_LABEL = "checkpoints"


class MarkStrip(QWidget):
    """Strip of markers aligned with the plots: ◆ a checkpoint, ▸ the start of an attempt, ✕ a failure."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._marks: tuple[Mark, ...] = ()
        self._across = Across("step", 0.0, 1.0)
        self._moments = Moments()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Attempts and checkpoints")
        theme.changed.connect(self.update)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(360, _HEIGHT)

    def set_marks(self, marks: tuple[Mark, ...]) -> None:
        """Show these."""
        self._marks = marks
        kinds = [mark.kind for mark in marks]
        self.setAccessibleDescription(
            ", ".join(counted(kinds.count(kind), kind) for kind in ("attempt", "checkpoint"))
        )
        self.update()

    def set_across(self, across: Across, moments: Moments) -> None:
        """Show the same range of x as the plots."""
        before = self.places()
        self._across, self._moments = across, moments
        if self.places() != before:
            self.update()

    def places(self) -> list[tuple[float, Mark]]:
        """Return (pixel, marker) of the visible markers."""
        if not len(self._moments.x):
            return []
        across = self._across
        log = across.log and across.low > 0
        scale = Scale(across.low, across.high, LEFT, max(LEFT + 1, self.width() - RIGHT), log)
        found = []
        for mark in self._marks:
            by_step = across.kind == "step" and mark.step is not None
            x = float(mark.step) if by_step and mark.step is not None else self._moments.x_at(mark.time)
            if x is not None and across.low <= x <= across.high and not (log and x <= 0):
                found.append((scale.pixel(x), mark))
        return found

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 - Qt's name
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        palette = self._theme.palette
        painter.fillRect(self.rect(), QColor(palette.surface))
        painter.setFont(_fitting(_LABEL, LEFT - 8))
        painter.setPen(QColor(palette.secondary))
        painter.drawText(0, 0, LEFT - 8, _HEIGHT, RIGHT_MIDDLE, _LABEL)
        middle = _HEIGHT / 2
        painter.setPen(QColor(palette.line))
        painter.drawLine(QLineF(LEFT, middle, self.width() - RIGHT, middle))
        for x, mark in self.places():
            self._paint_mark(painter, QPointF(x, middle), mark)
        painter.end()

    def _paint_mark(self, painter: QPainter, at: QPointF, mark: Mark) -> None:
        palette, x, y = self._theme.palette, at.x(), at.y()
        if mark.kind == "checkpoint":
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(palette.accent))
            painter.drawPolygon(
                QPolygonF([QPointF(x, y - 4), QPointF(x + 4, y), QPointF(x, y + 4), QPointF(x - 4, y)])
            )
        elif mark.kind == "attempt":
            painter.setPen(QPen(QColor(palette.text), 1))
            painter.drawLine(QLineF(x, 2, x, _HEIGHT - 2))
            painter.setBrush(QColor(palette.text))
            painter.drawPolygon(QPolygonF([QPointF(x, 2), QPointF(x + 7, 6), QPointF(x, 10)]))
        else:
            painter.setPen(QPen(QColor(palette.bad), 2))
            painter.drawLine(QLineF(x - 4, y - 4, x + 4, y + 4))
            painter.drawLine(QLineF(x - 4, y + 4, x + 4, y - 4))

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            near = [mark.text for x, mark in self.places() if abs(x - event.pos().x()) <= _REACH]
            if near:
                QToolTip.showText(event.globalPos(), plain_tip("\n".join(near[:12])), self)
            else:
                QToolTip.hideText()
            return True
        return super().event(event)


def _fitting(text: str, room: int) -> QFont:
    """The font of small texts, scaled down if `text` is wider than `room` pixels."""
    fitting = QFont(plot_font(Type.SMALL))
    scale = min(1.0, (room - 2) / plot_width(Type.SMALL, text))
    fitting.setPointSizeF(fitting.pointSizeF() * scale)
    return fitting
