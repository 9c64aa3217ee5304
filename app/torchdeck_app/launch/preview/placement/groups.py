"""What tells shard groups apart: a colour, what it fills, and their number. Without Qt."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from torchdeck_app.launch.preview.placement.layout import Box, Layout
from torchdeck_app.launch.preview.rank_grid_model import ModelNode, RankGridModel

COLOURS = 6
"""Of the palette's series, as many as it has grounds for groups."""
PERIODS = (23, 19)
"""After as many groups the looks begin anew. Primes: nodes, and groups a node, come in rows of 2, 4, 6, 8."""
STRIPE = 5
"""Pixels of the stripe that a cell with words has at its left."""
INSET = STRIPE + 3
"""How far the words make room for it."""


class Fill(Enum):
    """Which part of its cell a colour fills."""

    WHOLE = 0
    RING = 1
    LOWER = 2
    UPPER = 3


class GroupLook(NamedTuple):
    """How a group looks from far away, where there is no room for its number."""

    colour: int
    """0 to COLOURS - 1."""
    fill: Fill


def group_look(group: int, period: int = PERIODS[0]) -> GroupLook:
    """The look of the group of that number; of `period` in a row no two are alike."""
    fill, colour = divmod(group % period, COLOURS)
    return GroupLook(colour, Fill(fill))


def period_of(model: RankGridModel, layout: Layout) -> int:
    """The period with which cards below each other differ."""
    below = next((at for at, card in enumerate(layout.cards) if card.top != layout.cards[0].top), None)
    if below is None:
        return PERIODS[0]
    apart = _first_group(model.nodes[below]) - _first_group(model.nodes[0])
    return next(period for period in PERIODS if apart % period or not apart)


def pieces(box: Box, fill: Fill) -> tuple[Box, ...]:
    """What of `box` is filled."""
    if fill is Fill.WHOLE:
        return (box,)
    if fill is Fill.RING:
        return _ring(box)
    half = max(1, box.height // 2)
    return (Box(box.left, box.top if fill is Fill.UPPER else box.bottom - half, box.width, half),)


def group_words(model: RankGridModel, node: ModelNode) -> str:
    """`group 3`, or `groups 2–3`: whose ranks a node has; empty where there is one group."""
    found = sorted({slot.group for slot in node.slots if slot.rank is not None})
    if not model.is_grouped or not found:
        return ""
    return f"group {found[0]:,}" if len(found) == 1 else f"groups {found[0]:,}–{found[-1]:,}"


def _first_group(node: ModelNode) -> int:
    return next((slot.group for slot in node.slots if slot.rank is not None), 0)


def _ring(box: Box) -> tuple[Box, ...]:
    """Its border, about as wide as what is left free in the middle."""
    across, down = (max(1, length // 3) for length in (box.width, box.height))
    thick = min(across, down)
    inside = box.height - 2 * thick
    return (
        Box(box.left, box.top, box.width, thick),
        Box(box.left, box.bottom - thick, box.width, thick),
        Box(box.left, box.top + thick, thick, inside),
        Box(box.right - thick, box.top + thick, thick, inside),
    )
