"""Draws one line of a log: time, rank, text."""

from __future__ import annotations

import time
from dataclasses import dataclass

from PySide6.QtCore import QRect
from PySide6.QtGui import QColor, QFontMetrics, QPainter

from torchdeck.runs.logs.merged import LogLine
from torchdeck_app.runs.logs.highlight import Highlight
from torchdeck_app.runs.logs.page import level
from torchdeck_app.theme.palette import Palette

MARGIN = 8
_CLOCK = 9
"""Letters of the time and the space behind it."""


@dataclass(frozen=True)
class RowPainter:
    """What is the same for all rows of one repaint."""

    painter: QPainter
    palette: Palette
    metrics: QFontMetrics
    gutter: int
    """Pixels before the text."""
    width: int
    shifted: int
    """Pixels that the text is scrolled to the left."""
    highlight: Highlight

    def draw(self, line: LogLine | None, y: int, *, chosen: bool, marked: bool) -> None:
        """Draw a line, or that it is not there yet, from `y` downwards."""
        height = self.metrics.height() + 2
        if chosen:
            self.painter.fillRect(QRect(0, y, self.width, height), QColor(self.palette.selection))
        base = y + self.metrics.ascent() + 1
        if line is None:
            self.painter.setPen(QColor(self.palette.quiet))
            self.painter.drawText(MARGIN, base, "…")
        else:
            self._draw_text(line.text, y, height)
            ground = self.palette.selection if chosen else self.palette.surface
            self.painter.fillRect(QRect(0, y, self.gutter - MARGIN, height), QColor(ground))
            self._draw_gutter(line, base)
        if marked:
            self.painter.fillRect(QRect(0, y, 3, height), QColor(self.palette.accent))

    def _draw_gutter(self, line: LogLine, base: int) -> None:
        advance = self.metrics.horizontalAdvance("0")
        self.painter.setPen(QColor(self.palette.secondary))
        if line.time is not None:
            stamp = time.strftime("%H:%M:%S", time.localtime(line.time))
            self.painter.drawText(MARGIN, base, stamp)
        if self.gutter > 2 * MARGIN + _CLOCK * advance:
            colours = self.palette.series
            self.painter.setPen(QColor(colours[line.source.rank % len(colours)]))
            self.painter.drawText(MARGIN + _CLOCK * advance, base, f"r{line.source.rank}")

    def _draw_text(self, whole: str, y: int, height: int) -> None:
        painter, metrics = self.painter, self.metrics
        text = whole.expandtabs(8)
        advance = max(1, metrics.horizontalAdvance("0"))
        x = self.gutter - self.shifted
        # of a very long line only what is in sight is laid out
        skipped = max(0, -x // advance - 1)
        text = text[skipped : skipped + self.width // advance + 4]
        x += skipped * advance
        for first, last in self.highlight.spans(text):
            left = x + metrics.horizontalAdvance(text[:first])
            width = metrics.horizontalAdvance(text[first:last])
            painter.fillRect(QRect(left, y, width, height), QColor(self.palette.groups[1]))
        painter.setPen(QColor(getattr(self.palette, level(whole))))
        painter.drawText(x, y + metrics.ascent() + 1, text)
