"""Legend of the grid's colours and symbols."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from torchdeck_app.launch.preview.placement.grid_layout import Box, Detail
from torchdeck_app.launch.preview.placement.grid_markers import PERIODS, Fill, group_look, pieces
from torchdeck_app.launch.preview.placement.grid_painting import BAR_COLOURS
from torchdeck_app.launch.preview.rank_grid_model import RankGridModel
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme

_CHIP = 12
_GAP = 6
_LINE = 20


class Entry(NamedTuple):
    """Entry of the legend."""

    colours: tuple[str, ...]
    """#rrggbb, one per chip."""
    shape: str
    """`ground`, `bar`, `dot`, `dashed`, or `group` for numbered groups."""
    text: str
    fills: tuple[Fill, ...] = ()
    """Fills of groups, one per chip."""


def entries(
    model: RankGridModel, theme: Theme, detail: Detail, period: int = PERIODS[0]
) -> tuple[Entry, ...]:
    """Return the legend entries for `model`; `period` is the number of groups after which looks repeat."""
    palette = theme.palette
    grounds = palette.groups if detail in (Detail.NUMBERS, Detail.WORDS) else palette.series
    found = []
    if model.is_grouped:
        looks = [group_look(group, period) for group in range(min(model.groups, period))]
        colours = tuple(palette.series[look.colour] for look in looks)
        text = f"{model.groups:,} groups of {model.shard:,} ranks that shard one model"
        found.append(Entry(colours, "group", text, tuple(look.fill for look in looks)))
        found.append(Entry((palette.text,), "dot", "same part as the selected rank"))
    elif model.shard > 1:
        found.append(Entry((grounds[0],), "ground", f"all {model.shard:,} ranks shard one model"))
    elif model.world_size > 1:
        text = "each rank holds the whole model" if model.is_known else "a rank"
        found.append(Entry((grounds[0],), "ground", text))
    near = detail in (Detail.NUMBERS, Detail.WORDS)
    for verdict in ("fits", "tight", "does not fit"):
        if verdict in model.verdicts and (near or verdict != "fits"):
            colour = palette.named(BAR_COLOURS[verdict])
            text = "peak memory" if verdict == "fits" else f"peak memory: {verdict}"
            found.append(Entry((colour,), "bar" if near else "ground", text))
    if model.has_unused:
        found.append(
            Entry((palette.quiet if near else palette.line,), "dashed" if near else "ground", "not used")
        )
    return tuple(found)


class Legend(QWidget):
    """Legend of one line, two if needed, below a line of groups if there are some."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._entries: tuple[Entry, ...] = ()
        self.setAccessibleName("What the colours mean")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(2 * _LINE)

    def show_entries(self, shown: tuple[Entry, ...]) -> None:
        """Show these entries."""
        self._entries = shown
        self.setFixedHeight((3 if any(entry.fills for entry in shown) else 2) * _LINE)
        self.setAccessibleDescription("; ".join(entry.text for entry in shown))
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(320, 2 * _LINE)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        face = font(Type.SMALL)
        painter.setFont(face)
        metrics = QFontMetrics(face)
        left = top = 0
        for entry in self._entries:
            if entry.fills:
                self._paint_groups(painter, entry, metrics)
                top = _LINE
            chips = 0 if entry.fills else len(entry.colours) * (_CHIP + 2) + _GAP
            width = chips + metrics.horizontalAdvance(entry.text) + 2 * _CHIP
            if left and left + width - 2 * _CHIP > self.width():
                left, top = 0, top + _LINE
            for number, colour in enumerate(() if entry.fills else entry.colours):
                chip = QRect(left + number * (_CHIP + 2), top + (_LINE - _CHIP) // 2, _CHIP, _CHIP)
                self._paint_chip(painter, entry.shape, colour, chip)
            painter.setPen(self._theme.colour("secondary"))
            line = QRect(left + chips, top, self.width() - left - chips, _LINE)
            painter.drawText(line, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, entry.text)
            left += width
        painter.end()

    def _paint_groups(self, painter: QPainter, entry: Entry, metrics: QFontMetrics) -> None:
        """Paint the marks of groups with their numbers, as many as fit in the first line."""
        left = 0
        more = metrics.horizontalAdvance("…") + _GAP
        for number, (colour, fill) in enumerate(zip(entry.colours, entry.fills, strict=True)):
            text = f"{number}"
            width = _CHIP + 3 + metrics.horizontalAdvance(text) + _GAP + 4
            painter.setPen(self._theme.colour("secondary"))
            if left + width + more > self.width():
                painter.drawText(QRect(left, 0, more, _LINE), Qt.AlignmentFlag.AlignVCenter, "…")
                return
            for part in pieces(Box(left, (_LINE - _CHIP) // 2, _CHIP, _CHIP), fill):
                painter.fillRect(QRect(*part), QColor(colour))
            painter.drawText(QRect(left + _CHIP + 3, 0, width, _LINE), Qt.AlignmentFlag.AlignVCenter, text)
            left += width

    def _paint_chip(self, painter: QPainter, shape: str, colour: str, chip: QRect) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colour))
        if shape == "ground":
            painter.drawRoundedRect(chip, 3, 3)
        elif shape == "bar":
            painter.drawRect(QRect(chip.left(), chip.center().y() - 1, chip.width(), 4))
        elif shape == "dot":
            painter.drawEllipse(chip.center() + QPoint(1, 1), 3, 3)
        else:
            painter.setPen(QPen(QColor(colour), 1, Qt.PenStyle.DashLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(chip.adjusted(0, 0, -1, -1), 3, 3)
