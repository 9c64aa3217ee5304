"""All plots of a run in one view: the large loss, the marker strip, then rows of small plots."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import pyqtgraph
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QContextMenuEvent, QFocusEvent, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QApplication, QGraphicsScene, QGraphicsWidget, QMenu, QWidget

from torchdeck.runs.plots.catalogue import LOSS, Metric
from torchdeck.runs.plots.exchange import Moments, PlotData
from torchdeck.runs.plots.x_axis import Across
from torchdeck_app.runs.plots.choices import YAxis
from torchdeck_app.runs.plots.cursor import words_at
from torchdeck_app.runs.plots.geometry import LEFT, RIGHT, Shared
from torchdeck_app.runs.plots.legend import ValueBox
from torchdeck_app.runs.plots.marks import STRIP, Mark, MarkStrip
from torchdeck_app.runs.plots.plot import Plot
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.announcements import announce
from torchdeck_app.widgets.panel import GRID

_LARGE, _SMALL = 232, 168
"""Heights of the loss and of the other plots in pixels."""
_LEAST = 136
"""Minimum height of the loss in pixels, to keep its axis and the strip below visible."""
_NARROWEST = 296
_REACH = 6
"""Pixels within which the crosshair is at a pin."""
_AT_A_TIME = 0.006
"""Seconds of drawing per turn of the event loop."""

# Qt already drops mouse moves that come too fast, and nothing is left to clean up when the window closes
pyqtgraph.setConfigOptions(exitCleanup=False, mouseRateLimit=-1)


class PlotSheet(pyqtgraph.GraphicsView):
    """View of the plots; what one of them is asked for, all do.

    Items lie at whole pixels, which layouts of graphics items do not keep: their pictures would be blurred.
    """

    pointed = Signal(object)
    pin_asked = Signal(float)
    """Emitted with x whose values are to stay, or no longer."""
    zoom_asked = Signal(object)
    enlarged = Signal(object)
    """Emitted with the key of the plot to show alone, or None for all."""
    focused = Signal(QRect)
    """Emitted with the place of the plot that has the keyboard now."""

    def __init__(
        self, theme: Theme, fill_menu: Callable[[Plot, QMenu], None], parent: QWidget | None = None
    ) -> None:
        """Create an empty view.

        Args:
            theme: colours.
            fill_menu: adds what can be done with a plot to its context menu.
            parent: parent widget.
        """
        super().__init__(parent)
        self._theme = theme
        self._fill_menu = fill_menu
        self._metrics: dict[str, Metric] = {}
        self._plots: dict[str, Plot] = {}
        self._rects: dict[str, QRect] = {}
        self._shared = Shared()
        self._y_axis: Callable[[str], YAxis] = lambda _: YAxis()
        self._last = ""
        """Key of the plot that had the keyboard last."""
        self._across: Across | None = None
        self._is_zoomed = False
        self._large = _LARGE
        self._room = 0
        self._alone = ""
        """Key of the plot that has the room of all."""
        self.has_strip = True
        """Marks are of one run: if several are compared there are none."""
        self._pins: tuple[float, ...] = ()
        self._waiting: dict[str, tuple[Metric, PlotData]] = {}
        self._turn = QTimer(self, singleShot=True, interval=0)
        self._turn.timeout.connect(self._draw_some)
        self._box = ValueBox(theme, self)
        self.strip = MarkStrip(theme)
        self.strip.hide()
        self.setOptimizationFlag(self.OptimizationFlag.DontAdjustForAntialiasing)
        self.scene().setItemIndexMethod(QGraphicsScene.ItemIndexMethod.NoIndex)
        self.scene().addItem(self.strip)
        self.scene().sigMouseMoved.connect(self._point)
        self.scene().sigPrepareForPaint.connect(self._prepare)
        self.setAccessibleName("Plots")
        theme.changed.connect(self._colour)
        self._colour()

    def plot(self, key: str) -> Plot:
        """Return the plot of that key; KeyError if it is not in the sheet yet."""
        return self._plots[key]

    @property
    def shown(self) -> list[str]:
        """Return the keys of the plots in the sheet, in order."""
        return list(self._metrics)

    def current(self) -> Plot | None:
        """Return the plot that had the keyboard last, else the first one."""
        plots = {key: self._plots[key] for key in self._metrics if key in self._plots}
        return plots.get(self._last, next(iter(plots.values()), None))

    def set_alone(self, key: str) -> None:
        """Give the plot of that key the room of all when they are arranged next; empty for none."""
        self._alone = key

    def arrange(self, metrics: Sequence[Metric], y_axis: Callable[[str], YAxis]) -> None:
        """Show these plots in this order; `y_axis` returns the choice for the plot of a key."""
        self._box.hide()
        self._metrics = {metric.key: metric for metric in metrics}
        self._y_axis = y_axis
        for key in [key for key in self._plots if key not in self._metrics]:
            self.scene().removeItem(self._plots.pop(key))
        for key, plot in self._plots.items():
            plot.set_y_axis(y_axis(key))
        self._lay_out()
        order = [self._plots[key] for key in self._metrics if key in self._plots]
        for first, second in pairwise(order):
            QGraphicsWidget.setTabOrder(first.vb, second.vb)

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
        for key in [key for key in self._metrics if key in self._waiting]:
            metric, content = self._waiting.pop(key)
            plot = self._plots.get(key) or self._made(metric)
            plot.show_content(metric, content, self._across)
            plot.prepare(self.devicePixelRatioF())
            if time.perf_counter() - begun > _AT_A_TIME:
                self._turn.start()
                return
        self._waiting.clear()

    def _made(self, metric: Metric) -> Plot:
        plot = Plot(self._theme, metric, self._shared, lambda menu: self._fill_menu(plot, menu))
        plot.zoom_asked.connect(self.zoom_asked)
        plot.vb.pin_asked.connect(lambda: self._pin(plot))
        plot.set_pins(self._pins)
        plot.vb.cursor_asked.connect(lambda hundredths: self._step_cursor(plot, hundredths))
        plot.vb.enlarged.connect(lambda on: self.enlarged.emit(metric.key if on else None))
        plot.focus_changed.connect(lambda on: self._tell_focus(metric if on else None))
        plot.set_y_axis(self._y_axis(metric.key))
        plot.vb.set_automatic(0, on=not self._is_zoomed)
        before = [self._plots[key] for key in self._metrics if key in self._plots]
        self._plots[metric.key] = plot
        self.scene().addItem(plot)
        plot.place(QRectF(self._rects[metric.key]))
        plot.set_legend(on=metric.key == self._alone)
        if not self.hasFocus():
            self._tell_focus(None)
        if before:
            QGraphicsWidget.setTabOrder(before[-1].vb, plot.vb)
        return plot

    def set_across(self, across: Across, moments: Moments, *, zoomed: bool) -> None:
        """Show this range of x in all plots; pending ones follow when they are drawn."""
        self._across, self._is_zoomed = across, zoomed
        for key, plot in self._plots.items():
            if key not in self._waiting:
                plot.set_across(across, zoomed=zoomed)
        self.strip.set_across(across, moments)

    def set_marks(self, marks: tuple[Mark, ...]) -> None:
        """Show these markers in the strip."""
        self.strip.set_marks(marks)
        self.setAccessibleDescription(self.strip.summary())

    def set_pins(self, pins: tuple[float, ...]) -> None:
        """Show the values at these x in all plots."""
        self._pins = pins
        for plot in self._plots.values():
            plot.set_pins(pins)
        self.viewport().update()

    def _pin(self, plot: Plot) -> None:
        """Ask for a pin at the crosshair; for the pin near it, if there is one, so that it is removed."""
        x = plot.cursor_x
        if x is not None:
            across = plot.area.across
            near = [pin for pin in self._pins if abs(across.pixel(pin) - across.pixel(x)) <= _REACH]
            self.pin_asked.emit(near[0] if near else x)

    def set_cursor(self, x: float | None) -> None:
        """Show the crosshair in all plots."""
        for plot in self._plots.values():
            plot.set_cursor(x)
        self._box.hide()

    def set_room(self, height: int) -> None:
        """Set the visible height in pixels; the loss shrinks to fit."""
        self._room = height
        large = min(_LARGE, max(_LEAST, height - (STRIP if self.has_strip else 0)))
        if large != self._large or self._alone:
            self._large = large
            self._lay_out()

    def in_sight(self) -> tuple[tuple[str, int], ...]:
        """Return (key, pixel columns) of the visible plots."""
        seen = self.viewport().visibleRegion().boundingRect()
        return tuple(
            (key, max(16, round((rect.width() - LEFT - RIGHT) * self.devicePixelRatioF())))
            for key, rect in self._rects.items()
            if rect.intersects(seen)
        )

    def resizeEvent(self, event: QResizeEvent | None) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        if event is not None:  # pyqtgraph calls it from its constructor
            self._lay_out()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        self._shared.exposed = event.region()
        super().paintEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802 - Qt's name
        """Zoom at the pointer with Ctrl or in the focused plot; else the page scrolls."""
        under = self._under(event.position())
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier or (under and under.vb.hasFocus()):
            super().wheelEvent(event)
        else:
            event.ignore()

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802 - Qt's name
        super().leaveEvent(event)
        if QApplication.activePopupWidget() is None:  # the menu of a plot acts at the crosshair
            self.pointed.emit(None)

    def _point(self, at: QPointF) -> None:
        """Move the crosshair to the pointer; the plot under it shows more than the others."""
        under = self._under(at)
        x = None if under is None else under.x_at(at)
        self.pointed.emit(x)
        if under is None or x is None:
            return
        under.set_cursor(x, at)
        entries = under.box_entries()
        if entries:
            rect = under.geometry().toRect()
            self._box.show_at(entries, round(at.x()), rect.top(), rect.bottom() + 1)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802 - Qt's name
        """Open the menu of the plot with the focus by its key; pyqtgraph opens it by the mouse."""
        plot = next((plot for plot in self._plots.values() if plot.vb.hasFocus()), None)
        if event.reason() is not QContextMenuEvent.Reason.Keyboard or plot is None:
            super().contextMenuEvent(event)
            return
        place = plot.geometry().topLeft() + QPointF(LEFT, GRID)
        plot.vb.open_menu(QPointF(self.viewport().mapToGlobal(self.mapFromScene(place))))

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802 - Qt's name
        super().focusOutEvent(event)
        if event.reason() is not Qt.FocusReason.PopupFocusReason:  # the menu of a plot acts at the crosshair
            self.pointed.emit(None)
            self.setAccessibleDescription(self.strip.summary())

    def _step_cursor(self, plot: Plot, hundredths: int) -> None:
        """Move the crosshair of all plots by keys, from the end of the curves; its values are said."""
        across = plot.area.across
        start, end = across.pixel(across.low), across.pixel(across.high)
        here = end
        if plot.cursor_x is not None:
            here = across.pixel(plot.cursor_x) + hundredths * (end - start) / 100
        self.pointed.emit(across.value(min(max(here, start), end)))
        if plot.cursor_x is not None and self._across is not None:
            text = words_at(plot.content, self._across.kind, plot.cursor_x, plot.plotted.unit)
            self.setAccessibleDescription(text)
            announce(self, text)

    def _under(self, at: QPointF) -> Plot | None:
        return next((plot for plot in self._plots.values() if plot.geometry().contains(at)), None)

    def _prepare(self) -> None:
        """Paint the pictures of the visible plots before the view is painted."""
        seen = self.viewport().visibleRegion().boundingRect()
        ratio = self.devicePixelRatioF()
        for key, plot in self._plots.items():
            if self._rects[key].intersects(seen):
                plot.prepare(ratio)

    def _lay_out(self) -> None:
        """Place the loss over the whole width, the strip below it, and the others in rows."""
        width = max(_NARROWEST, self.width() - GRID)
        columns = max(1, (self.width() + GRID) // (_NARROWEST + GRID))
        each = (width - (columns - 1) * GRID) // columns
        self._rects, top = {}, 0
        large = self._alone or LOSS
        if large in self._metrics:
            strip = STRIP if self.has_strip else 0
            top = max(_LEAST, self._room - strip - 3 * GRID) if self._alone else self._large
            self._rects[large] = QRect(0, 0, width, top)
        self.strip.setVisible(self.has_strip and bool(self._metrics))
        if self.strip.isVisible():
            self.strip.setGeometry(QRectF(0, top, width, STRIP))
            top += STRIP
        small = [key for key in self._metrics if key != large]
        for number, key in enumerate(small):
            row, column = divmod(number, columns)
            left, y = column * (each + GRID), top + GRID + row * (_SMALL + GRID)
            self._rects[key] = QRect(left, y, each, _SMALL)
        rows = -(-len(small) // columns)
        self.setMinimumHeight(top + GRID + rows * (_SMALL + GRID))
        for key, plot in self._plots.items():
            plot.place(QRectF(self._rects[key]))
            plot.set_legend(on=key == self._alone)

    def _tell_focus(self, metric: Metric | None) -> None:
        """Name the plot that has the keyboard, or all of them, for screen readers."""
        if metric is None:
            names = [each.title for key, each in self._metrics.items() if key in self._plots]
            self.setAccessibleName(f"Plots of {', '.join(names)}")
        else:
            self._last = metric.key
            self.setAccessibleName(f"Plot of {metric.title}")
            self.focused.emit(self._rects[metric.key])

    def _colour(self) -> None:
        self.setBackground(self._theme.colour("surface"))
        for plot in self._plots.values():
            plot.restyle()
        self.viewport().update()
