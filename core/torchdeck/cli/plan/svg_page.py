"""Whole picture: headline, then one panel below the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torchdeck.cli.plan.bars import rows
from torchdeck.cli.plan.lines import traffic_lines
from torchdeck.cli.plan.placement import groups_line, kind_line
from torchdeck.cli.plan.svg_canvas import (
    BODY,
    HEADING,
    LINE,
    SMALL,
    TITLE,
    VERDICT_CLASSES,
    Canvas,
    escaped,
    fitted_name,
    style_sheet,
    text_width,
    wrapped,
)
from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.memory.fullness import MemoryPreview, ranks_text
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.data_share import (
    DataPreview,
    amount,
    deviation,
    evenness,
    policy_lines,
    source_line,
)
from torchdeck.plan.preview.memory_bars import (
    by_family,
    capacity_in_sight,
    facts,
    magnified,
    most_needed,
    scale_of,
)
from torchdeck.plan.preview.preview import headline, placement_line, verdict_line
from torchdeck.plan.preview.rank_grid import RankGrid, RankGridNode
from torchdeck.quantities import size

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
        yield "Memory per rank", lambda canvas, x, y, width: draw_memory(canvas, memory, x, y, width)
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


# Stacked bars of memory, with the capacity as a line.

_NUMBERS = 170
_MEMORY_BAR = 18
_ROW = 32
_LEGEND = 12
_RANGE = 3
"""Height of the line below a bar, from the least to the most expected."""


def draw_memory(canvas: Canvas, memory: MemoryPreview, x: float, y: float, width: float) -> float:
    """Draw below `y`; return the height that it takes."""
    top = y
    shown = most_needed(memory)
    scale = scale_of(shown)
    for group in shown:
        _bar(canvas, group, scale, x, top, width)
        top += _ROW
    if len(memory.groups) > len(shown):
        more = f"and {len(memory.groups) - len(shown)} groups that need less"
        canvas.text(x, top + BODY, more, "dim")
        top += LINE
    top += _legend(canvas, memory.decisive, x, top, width)
    capacity = any(capacity_in_sight(group, scale) for group in shown)
    top += _marks(canvas, x, top, capacity=capacity)
    if enlarged := magnified(shown, scale):
        canvas.text(x, top + BODY, f"{enlarged}, and the capacity is far beyond", "dim")
        top += LINE
    for text in [*facts(memory), *(f"→ {change.sentence}" for change in memory.suggestions)]:
        for line in wrapped(text, BODY, width):
            canvas.text(x, top + BODY, line)
            top += LINE
    return top - y


def _bar(canvas: Canvas, group: PredictedMemory, scale: float, x: float, y: float, width: float) -> None:
    left, room = x + _LABEL + 12, width - _LABEL - _NUMBERS - 24
    canvas.text(x, y + 15, ranks_text(group), "dim", room=_LABEL)
    canvas.rect(left, y + 2, room, _MEMORY_BAR, "track", radius=3)
    reached = 0.0
    for name, count in by_family(group.terms).items():
        part = count / scale * room
        canvas.rect(left + reached, y + 2, part, _MEMORY_BAR, f"t-{name}", title=f"{name}: {size(count)}")
        reached += part
    low, high = group.low_bytes / scale * room, min(group.high_bytes / scale * room, room)
    expected = f"expected from {size(group.low_bytes)} to {size(group.high_bytes)}"
    canvas.rect(left + low, y + _MEMORY_BAR + 4, max(1.0, high - low), _RANGE, "text", title=expected)
    numbers = size(group.peak_bytes)
    if group.capacity_bytes:
        numbers += f" of {size(group.capacity_bytes)}"
        if capacity_in_sight(group, scale):
            at = left + group.capacity_bytes / scale * room
            canvas.vertical(at, y - 2, y + _MEMORY_BAR + 6)
    canvas.text(x + width, y + 15, numbers, "text bold", room=_NUMBERS, anchor="end")


def _legend(canvas: Canvas, group: PredictedMemory, x: float, y: float, width: float) -> float:
    left, top = x, y + 4
    for name, count in by_family(group.terms).items():
        label = f"{name} {size(count)}"
        needed = 20 + text_width(label, _LEGEND)
        if left > x and left + needed > x + width:
            left, top = x, top + LINE
        canvas.rect(left, top + 2, 12, 12, f"t-{name}", radius=2)
        canvas.text(left + 18, top + _LEGEND + 0.5, label, size=_LEGEND)
        left += needed + 14
    return top - y + LINE + 6


def _marks(canvas: Canvas, x: float, y: float, *, capacity: bool) -> float:
    """Draw the meaning of the lines next to a bar; return the height it takes."""
    left, base = x, y + _LEGEND - 2
    canvas.rect(left, base - 5, 12, _RANGE, "text")
    label = "expected range of the peak"
    canvas.text(left + 18, base, label, "dim", size=_LEGEND)
    if capacity:
        left += 18 + text_width(label, _LEGEND) + 20
        canvas.vertical(left, base - 11, base + 2)
        canvas.text(left + 8, base, "capacity of the device", "dim", size=_LEGEND)
    return LINE


# Placement grid: one card with its ranks per node, or one square per node if there are many.

CARDS = 16
"""Most nodes drawn as cards; with more, each is a square."""
MOST_IN_CARDS = 256
"""Most ranks drawn with their number."""
_PLACEMENT_GAP = 12
_CELL_HEIGHT = 26
_SQUARE = 12
_STEP = 15


def draw_placement(canvas: Canvas, board: RankGrid, x: float, y: float, width: float) -> float:
    """Draw the grid below `y`; return the height that it takes."""
    if len(board.nodes) <= CARDS and board.world_size <= MOST_IN_CARDS:
        height = _cards(canvas, board, x, y, width)
    else:
        height = _squares(canvas, board, x, y, width)
    if board.shard > 1:
        _groups(canvas, board, x, y + height, width)
        height += LINE
    return height


def _groups(canvas: Canvas, board: RankGrid, x: float, y: float, width: float) -> None:
    """Describe how the weights are divided, and what the two colours distinguish."""
    line, left = groups_line(board), x
    if board.replicas > 1:
        for side in ("even", "odd"):
            canvas.rect(left, y + 2, _SQUARE, _SQUARE, side, radius=2)
            left += _STEP
        left += 5
        line += "; colours alternate from one group to the next"
    canvas.text(left, y + BODY, line, "dim", room=width - (left - x))


def _cards(canvas: Canvas, board: RankGrid, x: float, y: float, width: float) -> float:
    cell = max(34.0, text_width(str(board.world_size - 1), BODY) + 14)
    columns = 1 if len(board.nodes) == 1 else 2
    card = (width - _PLACEMENT_GAP * (columns - 1)) / columns
    each = max(1, int((card - 2 * _PLACEMENT_GAP) // cell))
    top = y
    for first in range(0, len(board.nodes), columns):
        row = board.nodes[first : first + columns]
        height = max(_card_height(node, each) for node in row)
        for place, node in enumerate(row):
            _card(canvas, board, node, x + place * (card + _PLACEMENT_GAP), top, card, height, cell, each)
        top += height + _PLACEMENT_GAP
    return top - y - _PLACEMENT_GAP + 8


def _card_height(node: RankGridNode, each: int) -> float:
    return 34 + -(-node.nproc // each) * (_CELL_HEIGHT + 4) + 8


def _card(
    canvas: Canvas,
    board: RankGrid,
    node: RankGridNode,
    x: float,
    y: float,
    width: float,
    height: float,
    cell: float,
    each: int,
) -> None:
    canvas.rect(x, y, width, height, "panel", radius=6)
    inside = width - 2 * _PLACEMENT_GAP
    kind = kind_line(node)
    kind_room = min(text_width(kind, SMALL), inside * 0.55)
    room = inside - kind_room - 8
    canvas.text(x + _PLACEMENT_GAP, y + 22, fitted_name(node.name, BODY, room), "text bold", full=node.name)
    canvas.text(x + width - _PLACEMENT_GAP, y + 22, kind, "dim", size=SMALL, room=kind_room, anchor="end")
    for local in range(node.nproc):
        rank = node.first_rank + local
        left = x + _PLACEMENT_GAP + local % each * cell
        top = y + 34 + local // each * (_CELL_HEIGHT + 4)
        side = "even" if board.shard_group(rank) % 2 == 0 or board.shard == 1 else "odd"
        title = f"rank {rank}: {node.devices[local]} of {node.name}"
        canvas.rect(left, top, cell - 4, _CELL_HEIGHT, side, radius=4, title=title)
        canvas.text(left + (cell - 4) / 2, top + 17.5, str(rank), "text", anchor="middle")


def _squares(canvas: Canvas, board: RankGrid, x: float, y: float, width: float) -> float:
    top = y
    for first, last in board.alike():
        nodes = board.nodes[first.node_rank : last.node_rank + 1]
        count = f"{len(nodes):,} node{'' if len(nodes) == 1 else 's'} of {kind_line(first)}"
        ranks = f"ranks {first.first_rank:,} to {last.last_rank:,}"
        canvas.text(x, top + BODY, f"{count}, one square each: {ranks}", room=width)
        half = width / 2 - 16
        names = [fitted_name(node.name, BODY, half) for node in (first, last)]
        canvas.text(x, top + LINE + BODY, " to ".join(dict.fromkeys(names)), "dim", room=width)
        top += 2 * LINE + 4
        each = int(width // _STEP)
        for place, node in enumerate(nodes):
            left, down = x + place % each * _STEP, top + place // each * _STEP
            side = "even" if board.shard_group(node.first_rank) % 2 == 0 or board.shard == 1 else "odd"
            title = f"{node.name}: ranks {node.first_rank} to {node.last_rank}"
            canvas.rect(left, down, _SQUARE, _SQUARE, side, radius=2, title=title)
        top += -(-len(nodes) // each) * _STEP + 8
    return top - y
