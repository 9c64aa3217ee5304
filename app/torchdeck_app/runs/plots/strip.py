"""The strip under the loss: attempts and checkpoints where they happened."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QLineF, QPointF, QSize, Qt
from PySide6.QtGui import QColor, QHelpEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from torchdeck_app.runs.plots.across import Across
from torchdeck_app.runs.plots.exchange import Moments
from torchdeck_app.runs.plots.geometry import Scale
from torchdeck_app.runs.plots.marks import Mark
from torchdeck_app.runs.plots.painting import LEFT, RIGHT
from torchdeck_app.runs.plots.text import RIGHT_MIDDLE, plot_font
from torchdeck_app.theme.fonts import Type
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.tooltip import plain_tip

_HEIGHT = 24
_REACH = 6


class MarkStrip(QWidget):
    """Marks in line with the plots: ◆ a checkpoint, ▸ the start of an attempt, ✕ a failure."""

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
        self.setAccessibleDescription(", ".join(_many(kinds, kind) for kind in ("attempt", "checkpoint")))
        self.update()

    def set_across(self, across: Across, moments: Moments) -> None:
        """Show the same range of x as the plots."""
        before = self.places()
        self._across, self._moments = across, moments
        if self.places() != before:
            self.update()

    def places(self) -> list[tuple[float, Mark]]:
        """(pixel, mark) of those in sight."""
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
        painter.setFont(plot_font(Type.SMALL))
        painter.setPen(QColor(palette.secondary))
        right = RIGHT_MIDDLE
        painter.drawText(0, 0, LEFT - 8, _HEIGHT, right, "saves")
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


def _many(kinds: Sequence[str], kind: str) -> str:
    count = kinds.count(kind)
    return f"{count:,} {kind}{'' if count == 1 else 's'}"
