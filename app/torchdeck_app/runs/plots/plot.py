"""One plot: pyqtgraph's PlotItem with our curves, ticks and values."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import pyqtgraph
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QPen
from PySide6.QtWidgets import QMenu

from torchdeck.runs.plots import entries
from torchdeck.runs.plots.catalogue import Metric
from torchdeck.runs.plots.entries import Entry
from torchdeck.runs.plots.exchange import Band, Curve, Level, PlotData
from torchdeck.runs.plots.ranges import stepped_log_range, stepped_range
from torchdeck.runs.plots.x_axis import Across, x_text
from torchdeck.shown_text import shown
from torchdeck_app.runs.plots.axis import TickAxis, ticks_in
from torchdeck_app.runs.plots.choices import YAxis
from torchdeck_app.runs.plots.cursor import AxisTag, Crosshair, single_at
from torchdeck_app.runs.plots.curves import CurvesItem, Pin, series_colour
from torchdeck_app.runs.plots.drawn_series import DrawnSeries, without
from torchdeck_app.runs.plots.geometry import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    Area,
    Scale,
    Shared,
    numbers,
    positions,
)
from torchdeck_app.runs.plots.heading import Heading
from torchdeck_app.runs.plots.view_box import PlotView
from torchdeck_app.theme.theme import Theme


class Plot(pyqtgraph.PlotItem):
    """Plot of one metric; zoom and crosshair go through the grid, which moves all plots together.

    An attribute named `data` on an item of a scene ends the process (Qt has a method of that name).
    """

    zoom_asked = Signal(object)
    """Emitted with (x0, x1), or None for everything."""
    focus_changed = Signal(bool)

    def __init__(
        self,
        theme: Theme,
        metric: Metric,
        shared: Shared,
        fill_menu: Callable[[QMenu], None],
    ) -> None:
        """Create a plot.

        Args:
            theme: colours.
            metric: what it shows.
            shared: what the plots of a sheet share.
            fill_menu: adds what else can be done with the plot to its context menu.
        """
        self._left = TickAxis("left", shared)
        self._bottom = TickAxis("bottom", shared)
        super().__init__(viewBox=PlotView(), axisItems={"left": self._left, "bottom": self._bottom})
        self._theme = theme
        self.plotted = metric
        self.content = PlotData()
        self._across = Across("step", 0.0, 1.0)
        self._y: tuple[float, float] | None = None
        self._y_axis = YAxis()
        self._is_moving = False
        """Whether a range is being set by the program, not the user."""
        self._pins: tuple[float, ...] = ()
        self._painted_at = 0.0
        """Screen pixels per logical pixel of the pictures; 0 if they are stale."""
        self._cursor: float | None = None
        self._pointer: QPointF | None = None
        self.layout.setContentsMargins(0, TOP, RIGHT, 0)
        for unused in ("top", "right"):
            self.getAxis(unused).unlinkFromView()
        self._fill_menu = fill_menu
        self._menu: QMenu | None = None
        self._curves = CurvesItem(self.vb, shared)
        self._crosshair = Crosshair(self.vb)
        self._levels: list[pyqtgraph.InfiniteLine] = []
        self._hidden: frozenset[str] = frozenset()
        """Labels of the series that were hidden in the legend."""
        self.legend: pyqtgraph.LegendItem | None = None
        self._heading = Heading(metric.title, self)
        self._tag = AxisTag(self)
        self.vb.sigXRangeChanged.connect(self._x_moved)
        self.vb.sigYRangeChanged.connect(self._y_moved)
        self.vb.fit_asked.connect(self._fit_all)
        self.vb.focused.connect(self._show_focus)
        self.restyle()

    @property
    def area(self) -> Area:
        """Return the area of the curves and its ranges."""
        rect = self.vb.rect()
        (x0, x1), (y0, y1) = self.x_range, self.y_range
        return Area(
            Scale(x0, x1, 0, max(1.0, rect.width()), self._log_x),
            Scale(y0, y1, max(1.0, rect.height()), 0, self._is_log_y),
        )

    @property
    def x_range(self) -> tuple[float, float]:
        """Return the range of x in view."""
        return numbers(self.vb.viewRange()[0], log=self._log_x)

    @property
    def y_range(self) -> tuple[float, float]:
        """Return the range of y in view."""
        return numbers(self.vb.viewRange()[1], log=self._is_log_y)

    @property
    def cursor_x(self) -> float | None:
        """Return x of the crosshair."""
        return self._cursor

    @property
    def _log_x(self) -> bool:
        return self._across.log and self._across.low > 0

    @property
    def _is_log_y(self) -> bool:
        return self._y_axis.log and self.content.least_positive is not None

    def set_y_axis(self, axis: YAxis) -> None:
        """Show a logarithmic y axis, if there are positive values, or one with chosen ends."""
        if axis != self._y_axis:
            self._y_axis, self._y = axis, None
            self.vb.set_automatic(1, on=True)
            self._place()

    def show_content(self, metric: Metric, content: PlotData, across: Across | None) -> None:
        """Draw `content` from now on, in the range `across` if given."""
        if across is not None and across.kind != self._across.kind:
            self._y = None
        levels = self.content.levels
        self.plotted, self.content = metric, content
        self._across = across or self._across
        if content.levels != levels:
            self._show_levels(content.levels)
        self._list_series()
        self._place()

    def set_pins(self, pins: tuple[float, ...]) -> None:
        """Show the values at these x."""
        self._pins, self._painted_at = pins, 0.0

    def pinned(self) -> tuple[Pin, ...]:
        """Return the pins in view with their texts."""
        unit, kind = self.plotted.unit, self._across.kind
        found = []
        for x in self._pins:
            if self._across.low <= x <= self._across.high:
                there = entries.at(self.content, x, unit)
                values = [f"{each.label} {each.text}" if len(there) > 1 else each.text for each in there]
                found.append(Pin(x, (x_text(kind, x), *values)))
        return tuple(found)

    def set_legend(self, *, on: bool) -> None:
        """Show pyqtgraph's legend: a click on a series' sign hides or shows it."""
        if on == (self.legend is not None):
            return
        if self.legend is None:
            self.legend = self.addLegend(offset=(-8, 8), labelTextColor=self._theme.palette.text)
        else:
            self.scene().removeItem(self.legend)
            self.legend = None
            self._hidden = frozenset()
        self._list_series()
        self._painted_at = 0.0
        self.update()

    def _list_series(self) -> None:
        """Tell pyqtgraph's export and legend of the curves and bands."""
        palette = self._theme.palette
        content: list[Curve | Band] = [*self.content.curves, *self.content.bands]
        series = [
            DrawnSeries(each, series_colour(palette, each.colour), self._hidden, self._show_series)
            for each in content
        ]
        self.items[len(self._levels) :] = series
        if self.legend is not None and len(series) > 1:
            names = [escape(shown(each.name())) for each in series]
            if names != [label.text for _, label in self.legend.items]:
                self.legend.clear()
                for each, name in zip(series, names, strict=True):
                    self.legend.addItem(each, name)

    def _show_series(self, name: str, visible: bool) -> None:  # noqa: FBT001 - as Qt's setVisible
        self._hidden = self._hidden - {name} if visible else self._hidden | {name}
        self._painted_at = 0.0
        self.update()

    def set_across(self, across: Across, *, zoomed: bool) -> None:
        """Show this range of x; `zoomed` if it is not everything."""
        self.vb.set_automatic(0, on=not zoomed)
        if across != self._across:
            if across.kind != self._across.kind:
                self._y = None
            self._across = across
            self._place()

    def _place(self) -> None:
        """Set the ranges of both axes at once."""
        content = self.content
        if content.low is not None and content.high is not None and self.vb.is_automatic(1):
            self._y = self._fitted(content.low, content.high)
        self._is_moving = True
        try:
            self.vb.limit(log_x=self._log_x, log_y=self._is_log_y)
            self.vb.setRange(
                xRange=positions((self._across.low, self._across.high), log=self._log_x),
                yRange=positions(self._y_shown(), log=self._is_log_y),
                padding=0,
                disableAutoRange=False,
            )
        finally:
            self._is_moving = False
        self._painted_at = 0.0
        self._show_cursor()

    def _y_shown(self) -> tuple[float, float]:
        if self._is_log_y and (self._y is None or self._y[0] <= 0):
            return 0.1, 1.0
        fitted = self._y or (0.0, 1.0)
        return self._y_axis.limited(fitted) if self.vb.is_automatic(1) else fitted

    def _fitted(self, low: float, high: float) -> tuple[float, float]:
        """Return the range of y that fits, in steps."""
        high = max([high, *(level.value for level in self.content.levels if level.value <= 2.5 * abs(high))])
        if self._is_log_y:
            before = self._y if self._y and self._y[0] > 0 else None
            return stepped_log_range(self.content.least_positive or low, high, before)
        most = ticks_in(self.vb.rect().height() or 1.0)
        return stepped_range(low, high, self._y, self.plotted.unit, most)

    def _x_moved(self) -> None:
        self._painted_at = 0.0
        if not self._is_moving:
            self.zoom_asked.emit(numbers(self.vb.viewRange()[0], log=self._log_x))

    def _y_moved(self) -> None:
        self._painted_at = 0.0
        if not self._is_moving:
            self._y = self.y_range

    def _fit_all(self) -> None:
        """Show everything of the axes that are automatic again."""
        if self.vb.is_automatic(1):
            self._y = None
            self._place()
        if self.vb.is_automatic(0):
            self.zoom_asked.emit(None)

    def prepare(self, ratio: float) -> None:
        """Paint the pictures of curves and axes if they have changed; paint() then only copies them."""
        if ratio == self._painted_at:
            return
        self._painted_at = ratio
        area, palette, unit = self.area, self._theme.palette, self.plotted.unit
        content = without(self.content, self._hidden)
        self._curves.prepare(area, content, self.pinned(), self.plotted, palette, ratio)
        self._left.prepare(area.up, unit, palette, ratio)
        self._bottom.prepare(area.across, self._across.kind, palette, ratio)

    def place(self, rect: QRectF) -> None:
        """Set the geometry in the scene, in whole pixels."""
        self.setGeometry(rect)
        self.layout.activate()
        self._place()

    def restyle(self) -> None:
        """Take the theme's colours."""
        palette = self._theme.palette
        self._painted_at = 0.0
        fill = QColor(palette.accent)
        self.vb.rbScaleBox.setPen(QPen(fill, 0))
        fill.setAlphaF(0.18)
        self.vb.rbScaleBox.setBrush(fill)
        if self.legend is not None:
            self.legend.setLabelTextColor(palette.text)
            self.legend.clear()  # its texts keep their colour
        self._show_levels(self.content.levels)
        self._list_series()
        self._show_focus()
        self._show_cursor()

    def _show_levels(self, levels: tuple[Level, ...]) -> None:
        for line in self._levels:
            self.removeItem(line)
        palette = self._theme.palette
        ground = QColor(palette.surface)
        ground.setAlphaF(0.85)
        pen = QPen(QColor(palette.text), 0, Qt.PenStyle.DashLine)
        self._levels = [
            pyqtgraph.InfiniteLine(
                level.value,
                angle=0,
                pen=pen,
                label=level.label,
                labelOpts={
                    "position": 0.97,
                    "color": palette.text,
                    "fill": ground,
                    "anchors": [(1, 1), (1, 0)],
                },
            )
            for level in levels
        ]
        self.items.clear()
        for line in self._levels:
            self.addItem(line, ignoreBounds=True)

    def _show_focus(self) -> None:
        self.vb.setBorder(QPen(QColor(self._theme.palette.accent), 1) if self.vb.hasFocus() else None)
        self.focus_changed.emit(self.vb.hasFocus())

    # Crosshair and values.

    def set_cursor(self, x: float | None, pointer: QPointF | None = None) -> None:
        """Show the crosshair at x.

        Args:
            x: x; None hides it.
            pointer: position in the scene if the pointer is in this plot.
        """
        if x == self._cursor and pointer == self._pointer:
            return
        self._cursor, self._pointer = x, pointer
        self._show_cursor()

    def _show_cursor(self) -> None:
        x, palette, width = self._cursor, self._theme.palette, self.size().width()
        if x is None or not self._across.low <= x <= self._across.high:
            self._crosshair.hide_it()
            self._tag.hide()
            found = entries.latest(self.content, self.plotted.unit)
            self._heading.show_entries(found, width, palette)
            return
        area = self.area
        found = entries.at(self.content, x, self.plotted.unit)
        self._heading.show_entries(found, width, palette)
        single = self._single()
        if single is not None:
            found = [single[1], *found]
        self._crosshair.show_at(area, x, found, None if single is None else single[0], palette)
        if self._pointer is None:
            self._tag.hide()
        else:
            y = self.size().height() - BOTTOM + 4
            at = LEFT + area.across.pixel(x)
            self._tag.show_at(x_text(self._across.kind, x), at, y, width - 1, palette)

    def _single(self) -> tuple[Curve, Entry] | None:
        """Return the series of a band nearest to the pointer, and its value there."""
        if self._pointer is None or self._cursor is None or not self.content.bands:
            return None
        y = self.area.up.value(self.vb.mapFromScene(self._pointer).y())
        return single_at(self.content, self._cursor, y, self.plotted.unit)

    def box_entries(self) -> list[Entry]:
        """Return the entries of the box at the pointer; none if the title line shows them."""
        if self._pointer is None or self._cursor is None:
            return []
        single = self._single()
        found = entries.at(self.content, self._cursor, self.plotted.unit)
        if single is None:
            return [] if self._heading.says_all else found
        return [single[1], *found]

    def x_at(self, scene: QPointF) -> float | None:
        """Return x at a position in the scene; None if it is not over the curves."""
        area, at = self.area, self.vb.mapFromScene(scene)
        return area.across.value(at.x()) if area.rect.adjusted(-1, -1, 1, 1).contains(at) else None

    def setExportMode(self, export: bool, opts: object = None) -> None:  # noqa: FBT001, N802 - pyqtgraph's arguments
        """Leave the crosshair out of pictures."""
        if export:
            self.set_cursor(None)
        super().setExportMode(export, opts)

    def getContextMenus(self, event: object) -> QMenu:  # noqa: ARG002, N802 - pyqtgraph's name
        """Return what is added to pyqtgraph's own context menu."""
        if self._menu is None:
            menu = self._menu = QMenu("Plot")
            menu.aboutToShow.connect(lambda: self._fill_menu(menu))
        return self._menu
