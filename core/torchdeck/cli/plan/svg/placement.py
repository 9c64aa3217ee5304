"""Placement grid: one card with its ranks per node, or one square per node if there are many."""

from __future__ import annotations

from torchdeck.cli.plan.preview.placement import groups_line, kind_line
from torchdeck.cli.plan.svg.canvas import Canvas
from torchdeck.cli.plan.svg.style import BODY, LINE, SMALL
from torchdeck.cli.plan.svg.text import fitted_name, text_width
from torchdeck.plan.preview.rank_grid import RankGrid, RankGridNode

CARDS = 16
"""Most nodes drawn as cards; with more, each is a square."""
MOST_IN_CARDS = 256
"""Most ranks drawn with their number."""
_GAP = 12
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
    card = (width - _GAP * (columns - 1)) / columns
    each = max(1, int((card - 2 * _GAP) // cell))
    top = y
    for first in range(0, len(board.nodes), columns):
        row = board.nodes[first : first + columns]
        height = max(_card_height(node, each) for node in row)
        for place, node in enumerate(row):
            _card(canvas, board, node, x + place * (card + _GAP), top, card, height, cell, each)
        top += height + _GAP
    return top - y - _GAP + 8


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
    inside = width - 2 * _GAP
    kind = kind_line(node)
    kind_room = min(text_width(kind, SMALL), inside * 0.55)
    room = inside - kind_room - 8
    canvas.text(x + _GAP, y + 22, fitted_name(node.name, BODY, room), "text bold", full=node.name)
    canvas.text(x + width - _GAP, y + 22, kind, "dim", size=SMALL, room=kind_room, anchor="end")
    for local in range(node.nproc):
        rank = node.first_rank + local
        left = x + _GAP + local % each * cell
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
        canvas.text(x, top + BODY, f"{count}, a square each: {ranks}", room=width)
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
