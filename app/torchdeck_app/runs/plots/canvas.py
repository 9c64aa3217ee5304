"""Widget that draws one plot."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QEnterEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from torchdeck.runs.plots import entries as legend
from torchdeck.runs.plots.catalogue import Metric
from torchdeck.runs.plots.exchange import Curve, PlotData
from torchdeck.runs.plots.ranges import stepped_log_range, stepped_range
from torchdeck.runs.plots.x_axis import Across
from torchdeck_app.runs.plots.geometry import plot_font, plot_width
from torchdeck_app.runs.plots.legend import paint_row
from torchdeck_app.runs.plots.overlay import paint_cursor, paint_selection, paint_state, single_at
from torchdeck_app.runs.plots.painting import LEFT, RIGHT, Frame, paint_axes, paint_data, ticks_in
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme

_ZOOM = 0.8
_LEAST_DRAG = 4


class PlotCanvas(QWidget):
    """Canvas of one metric; zoom, pan and cursor go through the grid, which moves all plots together."""

    pointed = Signal(object)
    """Emitted with x under the pointer; None when it has left."""
    zoom_asked = Signal(object)
    """Emitted with (x0, x1), or None for everything."""
    told = Signal(object)
    """Emitted with list[Entry]: the values at the pointer if the plot has no room for them; empty otherwise.
    """
    menu_asked = Signal(QPoint)
    """Emitted with the global position for the plot's context menu."""

    def __init__(self, theme: Theme, metric: Metric, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.plotted = metric
        self._data = PlotData()
        self._has_data = False
        self._across = Across("step", 0.0, 1.0)
        self._y: tuple[float, float] | None = None
        self._log_y = False
        self._cursor: float | None = None
        self._pointer: QPointF | None = None
        self._dragged: tuple[QPointF, bool] | None = None
        """Where a drag began, and whether it moves the picture."""
        self._picture = PlotPicture(theme)
        self._row_says_all = True
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(240, 120)
        self.setAccessibleName(f"Plot of {metric.title}")
        self.setToolTip("")
        theme.changed.connect(self._redraw)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(360, 168)

    @property
    def columns(self) -> int:
        """Return the width of the curves in screen pixels."""
        return max(16, round((self.width() - LEFT - RIGHT) * self.devicePixelRatioF()))

    @property
    def data(self) -> PlotData:
        """Return the plotted data."""
        return self._data

    @property
    def frame(self) -> Frame:
        """Return the frame of the plot."""
        across = self._across
        y = self._y or (0.0, 1.0)
        return Frame(
            self.width(),
            self.height(),
            across.kind,
            (across.low, across.high),
            y,
            self.plotted.unit,
            across.log,
            self._log_y,
        )

    @property
    def pointer(self) -> QPoint:
        """Return the pointer position in the plot, or the plot's center if the pointer is elsewhere."""
        return self.rect().center() if self._pointer is None else self._pointer.toPoint()

    @property
    def log_y(self) -> bool:
        """Return whether the y axis is logarithmic."""
        return self._log_y

    def set_log_y(self, *, on: bool) -> None:
        """Make the y axis logarithmic if there are positive values."""
        if on != self._log_y:
            self._log_y, self._y = on, None
            self._fit()
            self._redraw()

    def show_data(self, metric: Metric, data: PlotData) -> None:
        """Draw `data` from now on."""
        self.plotted, self._data, self._has_data = metric, data, True
        self._fit()
        self._redraw()

    def set_across(self, across: Across) -> None:
        """Show this range of x."""
        if across != self._across:
            if across.kind != self._across.kind:
                self._y = None
                self._fit()
            self._across = across
            self._redraw()

    def set_cursor(self, x: float | None) -> None:
        """Show the cursor at x."""
        if x != self._cursor:
            self._cursor = x
            self.update()

    def _fit(self) -> None:
        """Fit the range of y, in steps."""
        data = self._data
        if data.low is None or data.high is None:
            return
        levels = [level.value for level in data.levels if level.value <= 2.5 * abs(data.high)]
        low, high = data.low, max([data.high, *levels])
        if self._log_y and data.least_positive is not None:
            before = self._y if self._y and self._y[0] > 0 else None
            self._y = stepped_log_range(data.least_positive, high, before)
        else:
            self._y = stepped_range(low, high, self._y, self.plotted.unit, ticks_in(self.frame.area.height()))

    def _redraw(self) -> None:
        self._picture.spoil()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 - Qt's name and arguments
        if not self._has_data:  # later: sixteen plots at once would block the window
            painter = QPainter(self)
            painter.fillRect(self.rect(), self._theme.colour("surface"))
            painter.end()
            return
        picture = self.draw()
        painter = QPainter(self)
        painter.drawPixmap(0, 0, picture)
        self._paint_overlay(painter)
        painter.end()

    def draw(self) -> QPixmap:
        """Draw everything except legend and cursor if anything has changed."""
        return self._picture.drawn(
            self.size(), self.devicePixelRatioF(), self.frame, self._data, self.plotted.title
        )

    def _paint_overlay(self, painter: QPainter) -> None:
        frame, palette, data = self.frame, self._theme.palette, self._data
        painter.setFont(plot_font(Type.SMALL))
        cursor = self._cursor
        unit = self.plotted.unit
        entries = legend.latest(data, unit) if cursor is None else legend.at(data, cursor, unit)
        title = plot_width(Type.BODY, self.plotted.title)
        self._row_says_all = paint_row(painter, entries, self.width(), title, palette)
        if self.hasFocus():
            painter.setPen(QPen(QColor(palette.accent), 1))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        if self._dragged is not None and not self._dragged[1] and self._pointer is not None:
            paint_selection(painter, frame, self._dragged[0].x(), self._pointer.x(), palette)
        elif cursor is not None:
            paint_cursor(
                painter, frame, cursor, entries, self._single(), palette, place=self._pointer is not None
            )

    def _single(self) -> tuple[Curve, legend.Entry] | None:
        """Return the series of a band nearest to the pointer, and its value there."""
        if self._pointer is None or self._cursor is None:
            return None
        return single_at(self._data, self._cursor, self.frame.up.value(self._pointer.y()), self.plotted.unit)

    def _box_entries(self) -> list[legend.Entry]:
        """Return the entries of the box at the pointer; none if the title line shows them."""
        if self._pointer is None or self._cursor is None or self._dragged is not None:
            return []
        entries = legend.at(self._data, self._cursor, self.plotted.unit)
        single = self._single()
        if single is None:
            return [] if self._row_says_all else entries
        return [single[1], *entries]

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        moves = event.button() == Qt.MouseButton.MiddleButton or (
            event.button() == Qt.MouseButton.LeftButton
            and bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        )
        if (moves or event.button() == Qt.MouseButton.LeftButton) and self.frame.area.contains(
            event.position()
        ):
            self._dragged = (event.position(), moves)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        frame, position = self.frame, event.position()
        self._pointer = position
        if self._dragged is not None and self._dragged[1]:
            self.zoom_asked.emit(frame.across.moved(position.x() - self._dragged[0].x()))
            self._dragged = (position, True)
            return
        inside = frame.area.adjusted(-1, -1, 1, 1).contains(position) or self._dragged is not None
        if not inside:
            self._pointer = None
        self.pointed.emit(frame.across.value(position.x()) if inside else None)
        self.told.emit(self._box_entries())
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        dragged, self._dragged = self._dragged, None
        self.update()
        if dragged is None or dragged[1] or abs(event.position().x() - dragged[0].x()) < _LEAST_DRAG:
            return
        frame = self.frame
        ends = sorted(
            frame.across.value(min(max(x, frame.area.left()), frame.area.right()))
            for x in (dragged[0].x(), event.position().x())
        )
        if ends[1] > ends[0]:
            self.zoom_asked.emit((ends[0], ends[1]))

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: ARG002, N802 - Qt's name
        self._dragged = None
        self.zoom_asked.emit(None)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802 - Qt's name
        """Zoom with Ctrl or in the focused plot; else the grid scrolls."""
        control = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        turned = event.angleDelta().y()
        if not (control or self.hasFocus()) or not turned:
            event.ignore()
            return
        self.zoom_asked.emit(self.frame.across.zoomed(event.position().x(), _ZOOM ** (turned / 120)))
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        frame, key = self.frame, event.key()
        tenth = frame.area.width() / 10
        middle = frame.area.center().x()
        if key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self.zoom_asked.emit(frame.across.moved(tenth if key == Qt.Key.Key_Left else -tenth))
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.zoom_asked.emit(frame.across.zoomed(middle, _ZOOM))
        elif key == Qt.Key.Key_Minus:
            self.zoom_asked.emit(frame.across.zoomed(middle, 1 / _ZOOM))
        elif key == Qt.Key.Key_Home:
            self.zoom_asked.emit(None)
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802 - Qt's name
        self.menu_asked.emit(event.globalPos())

    def enterEvent(self, event: QEnterEvent) -> None:  # noqa: N802 - Qt's name
        super().enterEvent(event)
        self.update()

    def leaveEvent(self, event: object) -> None:  # noqa: ARG002, N802 - Qt's name
        self._pointer = None
        self.pointed.emit(None)
        self.told.emit([])
        self.update()


class PlotPicture:
    """Cached picture of a plot without anything that follows the pointer."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._pixels: QPixmap | None = None
        self._axes: tuple[tuple[Frame, str, str, float], QPixmap] | None = None
        self._is_stale = True

    def spoil(self) -> None:
        """Invalidate the picture."""
        self._is_stale = True

    def drawn(self, size: QSize, ratio: float, frame: Frame, data: PlotData, title: str) -> QPixmap:
        """Return the picture.

        Args:
            size: size in logical pixels.
            ratio: screen pixels per logical pixel.
            frame: frame of the plot.
            data: plotted data.
            title: title of the plot.
        """
        pixels = QSize(round(size.width() * ratio), round(size.height() * ratio))
        if self._pixels is None or self._pixels.size() != pixels:
            self._pixels = QPixmap(pixels)
            self._pixels.setDevicePixelRatio(ratio)
            self._is_stale = True
        if self._is_stale:
            self._is_stale = False
            painter = QPainter(self._pixels)
            painter.drawPixmap(0, 0, self._drawn_axes(pixels, ratio, frame, title))
            paint_data(painter, frame, data, self._theme.palette)
            paint_state(painter, frame, data, title, self._theme.palette)
            painter.end()
        return self._pixels

    def _drawn_axes(self, pixels: QSize, ratio: float, frame: Frame, title: str) -> QPixmap:
        """Draw background, title and axes; axes move in steps, so that they are seldom drawn."""
        key = (frame, title, self._theme.palette.scheme, ratio)
        if self._axes is None or self._axes[0] != key:
            made = QPixmap(pixels)
            made.setDevicePixelRatio(ratio)
            painter = QPainter(made)
            paint_axes(painter, frame, title, self._theme.palette)
            painter.end()
            self._axes = (key, made)
        return self._axes[1]
