"""Painted tile of one GPU in the grid: state, small charts of use and memory, holder and expected end."""

from __future__ import annotations

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from torchdeck.nodes.gpus.gpu_now import GpuNow
from torchdeck.nodes.gpus.gpu_words import holder_words, until_of, until_words, user_words
from torchdeck.nodes.gpus.history import GpuHistory, segments
from torchdeck.shown_text import shown
from torchdeck_app.nodes.gpus.curves import paint_curve
from torchdeck_app.nodes.gpus.gpu_looks import look_of, model_of, node_name, title_of
from torchdeck_app.nodes.gpus.gpu_model import GpuModel
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID

SPAN = 120.0
"""Seconds that the small charts show."""
_INSET = 12
_CHART = 32
"""Height of a small chart in pixels."""
_SHARES = (0.44, 0.56)
"""Widths of the charts: the text over the second one is longer."""
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class GpuTile(QStyledItemDelegate):
    """Paints GPUs of a `GpuModel`."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.is_compact = False
        """Without the model's name, for many GPUs."""
        self.width = 0
        """Width of a tile in pixels, with the space around it."""

    def height(self) -> int:
        """Return the height of a tile in pixels, with the space around it."""
        body, small = (QFontMetrics(font(kind)).height() for kind in (Type.BODY, Type.SMALL))
        lines = body + small + _CHART + small + (0 if self.is_compact else small + 4)
        return lines + 2 * _INSET + 3 * 4 + GRID - 4

    def sizeHint(self, _option: QStyleOptionViewItem, _index: QModelIndex | QPersistentModelIndex) -> QSize:  # noqa: N802 - Qt's name
        return QSize(self.width, self.height())

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        model: QAbstractItemModel = index.model()
        if not isinstance(model, GpuModel):
            return
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        frame = QRectF(option.rect).adjusted(GRID / 2 + 0.5, GRID / 2 + 0.5, -GRID / 2 - 0.5, -GRID / 2 - 0.5)
        self._paint_frame(painter, frame, option.state)
        inside = frame.adjusted(_INSET, _INSET - 2, -_INSET, -_INSET)
        self._paint_inside(painter, inside, model.gpu(index.row()), model.history(index.row()), model.now)
        painter.restore()

    def _paint_frame(self, painter: QPainter, frame: QRectF, state: QStyle.StateFlag) -> None:
        palette = self._theme.palette
        chosen = bool(state & QStyle.StateFlag.State_HasFocus)
        hovered = bool(state & QStyle.StateFlag.State_MouseOver)
        painter.setPen(QPen(QColor(palette.accent if chosen else palette.line), 2 if chosen else 1))
        painter.setBrush(QColor(palette.raised if hovered else palette.surface))
        painter.drawRoundedRect(frame, 6, 6)

    def _paint_inside(
        self, painter: QPainter, area: QRectF, gpu: GpuNow, history: GpuHistory, now: float
    ) -> None:
        palette, look = self._theme.palette, look_of(gpu)
        top = self._line(
            painter,
            area,
            (title_of(gpu) if not self.is_compact else f"{node_name(gpu.node)} · {gpu.device.index}"),
            f"{look.sign} {look.word}",
            _bold(font(Type.BODY)),
            (palette.text, look.rgb(palette)),
        )
        if not self.is_compact:
            top = self._line(
                painter,
                QRectF(area.left(), top, area.width(), 0),
                model_of(gpu),
                _heat(gpu),
                font(Type.SMALL),
                (palette.secondary, palette.secondary),
            )
        top = self._paint_charts(painter, QRectF(area.left(), top, area.width(), 0), gpu, history)
        self._line(
            painter,
            QRectF(area.left(), top, area.width(), 0),
            _holder(gpu),
            self._until(gpu, now),
            font(Type.SMALL),
            (palette.text, palette.secondary),
        )

    def _until(self, gpu: GpuNow, now: float) -> str:
        until = until_of(gpu)
        if until is None:
            return ""
        words = until_words(until, now)
        return f"until {words.partition(',')[0]}" if self.is_compact and "," in words else words

    def _paint_charts(self, painter: QPainter, area: QRectF, gpu: GpuNow, history: GpuHistory) -> float:
        palette = self._theme.palette
        left, bottom = area.left(), area.top()
        for at, (title, value, name) in enumerate(_charts(gpu)):
            width = (area.width() - 2 * GRID) * _SHARES[at]
            line = QRectF(left, area.top(), width, 0)
            colours = (palette.secondary, palette.text)
            below = self._line(painter, line, title, value, font(Type.SMALL), colours)
            field = QRectF(left, below - 2, width, _CHART)
            track = history.track(name)
            end = gpu.time or 0.0
            painter.setPen(QPen(QColor(palette.line), 1))
            painter.drawLine(field.bottomLeft(), field.bottomRight())
            colour = QColor(palette.series[at] if gpu.is_connected else palette.disabled)
            for part in segments(track, end - SPAN):
                paint_curve(painter, field, part, (end - SPAN, end), 100.0, colour)
            left, bottom = field.right() + 2 * GRID, field.bottom() + 5
        return bottom

    def _line(
        self,
        painter: QPainter,
        area: QRectF,
        left: str,
        right: str,
        face: QFont,
        colours: tuple[str, str],
    ) -> float:
        """Paint a text at each side, the left one shortened; return the y of the next line."""
        metrics = QFontMetrics(face)
        line = QRectF(area.left(), area.top(), area.width(), metrics.height())
        painter.setFont(face)
        room = int(line.width())
        if right:
            right = metrics.elidedText(shown(right), Qt.TextElideMode.ElideRight, int(room * 0.6))
            painter.setPen(QColor(colours[1]))
            painter.drawText(line, _RIGHT, right)
            room -= metrics.horizontalAdvance(right) + GRID
        painter.setPen(QColor(colours[0]))
        text = metrics.elidedText(shown(left), Qt.TextElideMode.ElideRight, max(0, room))
        painter.drawText(line, _LEFT, text)
        return line.bottom() + 4


def _bold(face: QFont) -> QFont:
    face.setWeight(QFont.Weight.DemiBold)
    return face


def _heat(gpu: GpuNow) -> str:
    parts = [] if gpu.temperature is None else [f"{gpu.temperature:.0f} °C"]
    return "  ".join(parts + ([] if gpu.power is None else [f"{gpu.power:.0f} W"]))


def _holder(gpu: GpuNow) -> str:
    return " · ".join(filter(None, (user_words(gpu), holder_words(gpu))))


def _charts(gpu: GpuNow) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    use = "–" if gpu.use is None else f"{gpu.use:.0f} %"
    used = gpu.memory_used
    memory = "–" if used is None else f"{used / 2**30:.0f} GiB"
    return ("Use", use, "use"), ("Memory", memory, "memory")
