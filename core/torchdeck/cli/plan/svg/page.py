"""Whole picture: headline, then one panel below the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torchdeck.cli.plan.preview.data import rows
from torchdeck.cli.plan.preview.lines import traffic_lines
from torchdeck.cli.plan.svg.canvas import Canvas
from torchdeck.cli.plan.svg.memory import draw_memory
from torchdeck.cli.plan.svg.placement import draw_placement
from torchdeck.cli.plan.svg.style import BODY, HEADING, LINE, SMALL, TITLE, VERDICT_CLASSES, style_sheet
from torchdeck.cli.plan.svg.text import escaped, wrapped
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.data import DataPreview, amount, deviation, evenness, policy_lines, source_line
from torchdeck.plan.preview.headline import headline, placement_line, verdict_line

WIDTH = 960
_MARGIN = 32
_PADDING = 20
_GAP = 16
Draw = Callable[[Canvas, float, float, float], float]
"""Canvas, left, top, width → height."""


def preview_svg(preview: Preview) -> str:
    """Return the picture of `preview`, an SVG document."""
    canvas = Canvas()
    top = _head(canvas, preview, _MARGIN)
    for heading, draw in _sections(preview):
        top = _panel(canvas, heading, draw, top)
    top = _feet(canvas, preview, top)
    return _document(canvas, round(top + _MARGIN), headline(preview))


def _document(canvas: Canvas, height: int, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img">\n'
        f"<title>{escaped(title)}</title>\n"
        f"<style>\n{style_sheet()}\n</style>\n"
        f'<rect width="{WIDTH}" height="{height}" class="page"/>\n'
        f"{canvas.elements}\n</svg>\n"
    )


def _head(canvas: Canvas, preview: Preview, top: float) -> float:
    plan, room = preview.plan, WIDTH - 2 * _MARGIN
    canvas.text(_MARGIN, top + TITLE, plan.name, "text bold", size=TITLE, room=room)
    top += TITLE + 10
    canvas.text(_MARGIN, top + BODY, f"{plan.kind} {plan.target}", "dim", room=room)
    top += LINE
    canvas.text(_MARGIN, top + BODY, placement_line(preview), room=room)
    top += LINE
    if preview.memory is not None:
        kind = f"{VERDICT_CLASSES[preview.memory.verdict]} bold"
        canvas.text(_MARGIN, top + BODY + 2, verdict_line(preview.memory), kind, size=15, room=room)
        top += LINE + 4
    return top + 12


def _sections(preview: Preview) -> Iterator[tuple[str, Draw]]:
    yield "Placement", lambda canvas, x, y, width: draw_placement(canvas, preview.board, x, y, width)
    if preview.arithmetic:
        yield "Step", lambda canvas, x, y, width: draw_lines(canvas, preview.arithmetic, x, y, width)
    data, memory = preview.data, preview.memory
    if data is not None:
        yield "Data", lambda canvas, x, y, width: draw_data(canvas, data, x, y, width)
    if memory is not None:
        yield "Memory of a rank", lambda canvas, x, y, width: draw_memory(canvas, memory, x, y, width)
    if preview.traffic is not None:
        sentences = tuple(traffic_lines(preview.traffic))
        yield "Communication", lambda canvas, x, y, width: draw_lines(canvas, sentences, x, y, width)


def draw_lines(canvas: Canvas, lines: tuple[str, ...], x: float, y: float, width: float) -> float:
    """Draw texts, each on as many lines as it needs."""
    top = y
    for text in lines:
        for line in wrapped(text, BODY, width):
            canvas.text(x, top + BODY, line)
            top += LINE
    return top - y


def _panel(canvas: Canvas, heading: str, draw: Draw, top: float) -> float:
    """Draw a panel with the contents from `draw`; return where the next one begins."""
    inside = Canvas()
    width = WIDTH - 2 * _MARGIN
    height = draw(inside, _MARGIN + _PADDING, top + 44, width - 2 * _PADDING)
    canvas.rect(_MARGIN, top, width, height + 44 + _PADDING - 8, "panel", radius=8)
    canvas.text(_MARGIN + _PADDING, top + 28, heading, "text bold", size=HEADING)
    canvas.add(inside)
    return top + height + 44 + _PADDING - 8 + _GAP


def _feet(canvas: Canvas, preview: Preview, top: float) -> float:
    said = [*((text, "tight") for text in preview.plan.warnings), *((text, "dim") for text in preview.notes)]
    for text, kind in said:
        for line in wrapped(text, SMALL, WIDTH - 2 * _MARGIN):
            canvas.text(_MARGIN, top + SMALL, line, kind, size=SMALL)
            top += 16
    canvas.text(_MARGIN, top + SMALL, f"fingerprint {preview.plan.fingerprint[:16]}", "dim", size=SMALL)
    return top + 4


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
