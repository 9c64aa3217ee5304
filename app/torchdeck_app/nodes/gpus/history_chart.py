"""Charts of one GPU's history: a value over time, and its throttle reasons; they share one time cursor."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from torchdeck.nodes.gpus.gpu_now import reason_words
from torchdeck.nodes.gpus.history import GAP, Track, segments
from torchdeck.shown_text import shown
from torchdeck_app.nodes.gpus.curves import paint_curve
from torchdeck_app.nodes.gpus.gpu_looks import reason_colour
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.chart import Chart

_INSET = 4
_EMPTY = Track((), ())


class TimeChart(Chart):
    """Chart whose marks are the samples of a track."""

    cursor_moved = Signal(object)
    """Emitted with the time of the selected sample; None if there is none."""

    def __init__(self, theme: Theme, title: str, height: int, parent: QWidget | None = None) -> None:
        super().__init__(theme, title, parent)
        self._title, self._height = title, height
        self._track = _EMPTY
        self._span = (0.0, 60.0)
        self._shown_at: float | None = None
        """Time of the cursor, perhaps that of another chart."""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.pointed.connect(self._tell_cursor)

    def show_track(self, track: Track, span: tuple[float, float]) -> None:
        """Show a track on a time axis from `span[0]` to `span[1]`."""
        time_before = None if self.mark is None else self._track.times[self.mark]
        self._track, self._span = track, span
        if time_before is not None:  # the ring has moved under the mark
            self.point_at(self._nearest(time_before))
        self.changed()

    def show_cursor(self, at: float | None) -> None:
        """Show the cursor at a time, and the value there."""
        if at != self._shown_at:
            self._shown_at = at
            self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(220, self.fontMetrics().height() + 4 + self._height + 2 * _INSET)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(140, self.sizeHint().height())

    def marks(self) -> int:
        return len(self._track.times)

    def mark_at(self, place: QPointF) -> int | None:
        field = self.field()
        if not self._track.times or field.width() <= 0:
            return None
        begin, end = self._span
        at = begin + (place.x() - field.left()) / field.width() * (end - begin)
        found = self._nearest(at)
        return found if abs(self._track.times[found] - at) <= max(GAP, (end - begin) / 60) else None

    def text_of(self, mark: int) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(self._track.times[mark]))
        return f"{clock}: {self.words(self._track.values[mark])}"

    @abstractmethod
    def words(self, value: float) -> str:
        """Return a value as text."""

    def field(self) -> QRectF:
        """Return where values are painted."""
        top = _INSET + self.fontMetrics().height() + 4
        return QRectF(_INSET, top, self.width() - 2 * _INSET, self.height() - top - _INSET)

    def draw_head(self, painter: QPainter) -> None:
        """Paint title, and the value at the cursor or else the last one."""
        line = QRectF(_INSET, _INSET, self.width() - 2 * _INSET, self.fontMetrics().height())
        painter.setFont(font(Type.SMALL))
        metrics, head = self.fontMetrics(), self._head()
        room = line.width() - metrics.horizontalAdvance(head) - 2 * _INSET
        title = metrics.elidedText(shown(self._title), Qt.TextElideMode.ElideRight, max(0, int(room)))
        painter.setPen(self._theme.colour("secondary"))
        painter.drawText(line, Qt.AlignmentFlag.AlignLeft, title)
        painter.setPen(self._theme.colour("text"))
        painter.drawText(line, Qt.AlignmentFlag.AlignRight, head)

    def draw_cursor(self, painter: QPainter) -> None:
        """Paint the cursor, if it is on the axis."""
        begin, end = self._span
        if self._shown_at is not None and begin <= self._shown_at <= end:
            field = self.field()
            x = field.left() + field.width() * (self._shown_at - begin) / (end - begin)
            painter.setPen(QPen(self._theme.colour("secondary"), 1, Qt.PenStyle.DotLine))
            painter.drawLine(QPointF(x, field.top()), QPointF(x, field.bottom()))

    def _head(self) -> str:
        if not self._track.times:
            return "–"
        if self._shown_at is not None:
            mark = self._nearest(self._shown_at)
            if abs(self._track.times[mark] - self._shown_at) <= GAP:
                return self.text_of(mark)
        return self.words(self._track.values[-1])

    def _nearest(self, at: float) -> int:
        times = self._track.times
        after = min(bisect_left(times, at), len(times) - 1)
        return after - 1 if after and at - times[after - 1] < times[after] - at else after

    def _tell_cursor(self, _text: str) -> None:
        self.cursor_moved.emit(None if self.mark is None else self._track.times[self.mark])


class HistoryChart(TimeChart):
    """One value over time as a filled curve."""

    def __init__(
        self,
        theme: Theme,
        title: str,
        words: Callable[[float], str],
        *,
        step: float,
        series: int = 0,
        parent: QWidget | None = None,
    ) -> None:
        """Create an empty chart.

        Args:
            theme: provides its colours.
            title: title of the chart.
            words: returns a value as text.
            step: the upper edge is a multiple of it.
            series: number of the series' colour.
            parent: Qt parent.
        """
        super().__init__(theme, title, 56, parent)
        self._words, self._step, self._series = words, step, series
        self._least = step
        self._limit: float | None = None

    def set_limit(self, limit: float | None) -> None:
        """Show a limit as a line, which the upper edge includes."""
        self._limit = limit

    def words(self, value: float) -> str:
        return "not reported" if math.isnan(value) else self._words(value)

    def draw(self, painter: QPainter) -> None:
        self.draw_head(painter)
        field = self.field()
        top = self._top()
        painter.setPen(QPen(self._theme.colour("line"), 1))
        painter.drawLine(field.bottomLeft(), field.bottomRight())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for part in segments(self._track, self._span[0]):
            paint_curve(
                painter, field, part, self._span, top, QColor(self._theme.palette.series[self._series])
            )
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
        if self._limit is not None:
            y = field.bottom() - field.height() * self._limit / top
            painter.setPen(QPen(self._theme.colour("warn"), 1, Qt.PenStyle.DashLine))
            painter.drawLine(QPointF(field.left(), y), QPointF(field.right(), y))
        self.draw_cursor(painter)

    def _top(self) -> float:
        """Return the upper edge: it moves in steps, not with each sample."""
        known = [value for value in self._track.values if not math.isnan(value)]
        highest = max([*known, self._limit or 0.0, self._least])
        return self._step * math.ceil(highest / self._step)


class ReasonChart(TimeChart):
    """Throttle reasons over time as a strip: normal, limited, slowed down."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Throttling", 12, parent)

    def words(self, value: float) -> str:
        return reason_words(None if math.isnan(value) else int(value))

    def draw(self, painter: QPainter) -> None:
        self.draw_head(painter)
        field = self.field()
        painter.setPen(QPen(self._theme.colour("line"), 1))
        painter.drawLine(field.bottomLeft(), field.bottomRight())
        begin, end = self._span
        scale = field.width() / (end - begin)
        for part in segments(self._track, begin):
            for at, (moment, mask) in enumerate(part):
                until = part[at + 1][0] if at + 1 < len(part) else min(end, moment + 1.0)
                left = field.left() + (moment - begin) * scale
                colour = self._theme.colour(reason_colour(int(mask)))
                width = max(1.0, (until - moment) * scale)
                painter.fillRect(QRectF(left, field.top(), width, field.height()), colour)
        self.draw_cursor(painter)
