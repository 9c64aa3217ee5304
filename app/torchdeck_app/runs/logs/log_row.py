"""One log line as it is painted: time, rank, text, and the highlighted matches."""

from __future__ import annotations

import time
from dataclasses import dataclass

from PySide6.QtCore import QRect
from PySide6.QtGui import QColor, QFontMetrics, QPainter

from torchdeck.runs.logs.line_pattern import LinePattern, SlowPatternError
from torchdeck.runs.logs.merged import LogLine
from torchdeck_app.runs.logs.messages import level
from torchdeck_app.theme.palette import Palette

SECONDS = 0.05
"""Maximum seconds to search one line while painting."""


class Highlight:
    """Pattern to highlight, or none; one that takes too long is not tried again."""

    def __init__(self, pattern: LinePattern | None = None) -> None:
        self._pattern = pattern

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the spans to highlight as (start, end), end exclusive."""
        if self._pattern is None:
            return []
        try:
            return self._pattern.spans(text, SECONDS)
        except SlowPatternError:
            self._pattern = None
            return []


MARGIN = 8
_CLOCK = 9
"""Letters of the time and the space after it."""


@dataclass(frozen=True)
class RowPainter:
    """Values shared by all rows of one repaint."""

    painter: QPainter
    palette: Palette
    metrics: QFontMetrics
    gutter: int
    """Pixels before the text."""
    width: int
    shifted: int
    """Horizontal scroll offset of the text in pixels."""
    highlight: Highlight

    def draw(self, line: LogLine | None, y: int, *, chosen: bool, marked: bool) -> None:
        """Draw a line, or a placeholder for a missing one, with its top at `y`."""
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
        # of a very long line only the visible part is laid out
        skipped = max(0, -x // advance - 1)
        text = text[skipped : skipped + self.width // advance + 4]
        x += skipped * advance
        for first, last in self.highlight.spans(text):
            left = x + metrics.horizontalAdvance(text[:first])
            width = metrics.horizontalAdvance(text[first:last])
            painter.fillRect(QRect(left, y, width, height), QColor(self.palette.groups[1]))
        painter.setPen(QColor(self.palette.named(level(whole))))
        painter.drawText(x, y + metrics.ascent() + 1, text)
