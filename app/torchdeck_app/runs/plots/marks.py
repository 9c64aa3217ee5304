"""Strip under the loss: attempts and checkpoints at the time they happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyqtgraph
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QGraphicsSceneHoverEvent

from torchdeck.quantities import counted
from torchdeck.runs.plots.exchange import Moments
from torchdeck.runs.plots.x_axis import Across
from torchdeck_app.runs.plots.geometry import LEFT, RIGHT, RIGHT_MIDDLE, Scale, plot_font, plot_width
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip

STRIP = 24
"""Height in pixels."""
_REACH = 6
_LABEL = "checkpoints"
_BALLOON = ((-5, -5), (5, -5), (5, 2), (-1, 2), (-4, 5), (-4, 2), (-5, 2))
MarkKind = Literal["attempt", "checkpoint", "failure", "note"]


@dataclass(frozen=True)
class Mark:
    """Marker for one event."""

    time: float
    """Unix seconds."""
    step: int | None
    """Step of the event, if it has one."""
    kind: MarkKind
    text: str
    """Description, such as `checkpoint 1,200 saved in 3.1 s`."""


class MarkStrip(pyqtgraph.GraphicsWidget):
    """Strip of markers aligned with the plots.

    ◆ a checkpoint, ▸ the start of an attempt, ✕ a failure, a speech balloon for a note.
    """

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._marks: tuple[Mark, ...] = ()
        self._across = Across("step", 0.0, 1.0)
        self._moments = Moments()
        self.setAcceptHoverEvents(True)

    def set_marks(self, marks: tuple[Mark, ...]) -> None:
        """Show these."""
        self._marks = marks
        self.update()

    def summary(self) -> str:
        """Return how many there are, for screen readers."""
        kinds = [mark.kind for mark in self._marks]
        always, notes = ("attempt", "checkpoint"), ("note",) if "note" in kinds else ()
        return ", ".join(counted(kinds.count(kind), kind) for kind in (*always, *notes))

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
        scale = Scale(across.low, across.high, LEFT, max(LEFT + 1, self.size().width() - RIGHT), log)
        found = []
        for mark in self._marks:
            by_step = across.kind == "step" and mark.step is not None
            x = float(mark.step) if by_step and mark.step is not None else self._moments.x_at(mark.time)
            if x is not None and across.low <= x <= across.high and not (log and x <= 0):
                found.append((scale.pixel(x), mark))
        return found

    def paint(self, painter: QPainter, option: object, widget: object = None) -> None:  # noqa: ARG002 - Qt's arguments
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        palette = self._theme.palette
        painter.setFont(_fitting(_LABEL, LEFT - 8))
        painter.setPen(QColor(palette.secondary))
        painter.drawText(QRectF(0, 0, LEFT - 8, STRIP), RIGHT_MIDDLE, _LABEL)
        middle = STRIP / 2
        painter.setPen(QColor(palette.line))
        painter.drawLine(QLineF(LEFT, middle, self.size().width() - RIGHT, middle))
        for x, mark in self.places():
            self._paint_mark(painter, QPointF(x, middle), mark)

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
            painter.drawLine(QLineF(x, 2, x, STRIP - 2))
            painter.setBrush(QColor(palette.text))
            painter.drawPolygon(QPolygonF([QPointF(x, 2), QPointF(x + 7, 6), QPointF(x, 10)]))
        elif mark.kind == "note":
            painter.setPen(QPen(QColor(palette.warn), 1.5))
            painter.setBrush(QColor(palette.surface))
            painter.drawPolygon(
                [
                    QPointF(x + i, y + j)
                    for i, j in ((-5, -5), (5, -5), (5, 2), (-1, 2), (-4, 5), (-4, 2), (-5, 2))
                ]
            )
        else:
            painter.setPen(QPen(QColor(palette.bad), 2))
            painter.drawLine(QLineF(x - 4, y - 4, x + 4, y + 4))
            painter.drawLine(QLineF(x - 4, y + 4, x + 4, y - 4))

    def hoverMoveEvent(self, event: QGraphicsSceneHoverEvent) -> None:  # noqa: N802 - Qt's name
        near = [mark.text for x, mark in self.places() if abs(x - event.pos().x()) <= _REACH]
        self.setToolTip(plain_tip("\n".join(near[:12])) if near else "")


def _fitting(text: str, room: int) -> QFont:
    """The font of small texts, scaled down if `text` is wider than `room` pixels."""
    fitting = QFont(plot_font(Type.SMALL))
    scale = min(1.0, (room - 2) / plot_width(Type.SMALL, text))
    fitting.setPointSizeF(fitting.pointSizeF() * scale)
    return fitting
