"""Bars of what each rank reads."""

from __future__ import annotations

from torchdeck.cli.plan.preview.data import rows
from torchdeck.cli.plan.svg.canvas import Canvas
from torchdeck.cli.plan.svg.style import BODY, LINE
from torchdeck.plan.preview.data import DataPreview
from torchdeck.plan.preview.data_lines import amount, deviation, evenness, policy_lines, source_line

_LABEL = 170
_AMOUNT = 240
_DEVIATION = 72
_BAR = 12


def draw_data(canvas: Canvas, data: DataPreview, x: float, y: float, width: float) -> float:
    """Draw below `y`; return the height that it takes."""
    top = y
    canvas.text(x, top + BODY, source_line(data), room=width)
    top += LINE + 4
    most = float(data.load.max()) or 1.0
    room = width - _LABEL - _AMOUNT - _DEVIATION - 24
    for row in rows(data):
        canvas.text(x, top + BODY, row.label, "dim", room=_LABEL)
        share = float(data.load[row.rank]) / most
        canvas.rect(x + _LABEL + 12, top + 2, room, _BAR, "track", radius=3)
        if share > 0:
            canvas.rect(x + _LABEL + 12, top + 2, max(1.0, room * share), _BAR, "series", radius=3)
        end = x + width
        canvas.text(end - _DEVIATION, top + BODY, amount(data, row.rank), room=_AMOUNT, anchor="end")
        canvas.text(end, top + BODY, deviation(data, row.rank), "dim", room=_DEVIATION - 12, anchor="end")
        top += LINE
    for line, kind in [(evenness(data), "text"), *((line, "dim") for line in policy_lines(data))]:
        canvas.text(x, top + BODY + 4, line, kind, room=width)
        top += LINE
    return top - y + 4
