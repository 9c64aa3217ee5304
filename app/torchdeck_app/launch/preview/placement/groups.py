"""Look of shard groups: a colour, a fill, and their number. Without Qt."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from torchdeck_app.launch.preview.placement.layout import Box, Layout
from torchdeck_app.launch.preview.rank_grid_model import ModelNode, RankGridModel

COLOURS = 6
"""Number of the palette's series used: as many as it has backgrounds for groups."""
PERIODS = (23, 19)
"""Numbers of groups after which looks repeat. Primes: nodes, and groups per node, come in rows of 2, 4, 6, 8.
"""
STRIPE = 5
"""Width in pixels of the stripe at the left of a cell with text."""
INSET = STRIPE + 3
"""Indent of the text for the stripe."""


class Fill(Enum):
    """Part of the cell that is filled with colour."""

    WHOLE = 0
    RING = 1
    LOWER = 2
    UPPER = 3


class GroupLook(NamedTuple):
    """Look of a group when zoomed out, if there is no room for its number."""

    colour: int
    """Index from 0 to COLOURS - 1."""
    fill: Fill


def group_look(group: int, period: int = PERIODS[0]) -> GroupLook:
    """Return the look of a group; no two of `period` consecutive ones are equal."""
    fill, colour = divmod(group % period, COLOURS)
    return GroupLook(colour, Fill(fill))


def period_of(model: RankGridModel, layout: Layout) -> int:
    """Return the period with which cards below each other differ."""
    below = next((at for at, card in enumerate(layout.cards) if card.top != layout.cards[0].top), None)
    if below is None:
        return PERIODS[0]
    apart = _first_group(model.nodes[below]) - _first_group(model.nodes[0])
    return next(period for period in PERIODS if apart % period or not apart)


def pieces(box: Box, fill: Fill) -> tuple[Box, ...]:
    """Return the filled parts of `box`."""
    if fill is Fill.WHOLE:
        return (box,)
    if fill is Fill.RING:
        return _ring(box)
    half = max(1, box.height // 2)
    return (Box(box.left, box.top if fill is Fill.UPPER else box.bottom - half, box.width, half),)


def group_words(model: RankGridModel, node: ModelNode) -> str:
    """Return `group 3`, or `groups 2–3`, for a node's ranks; empty if there is only one group."""
    found = sorted({slot.group for slot in node.slots if slot.rank is not None})
    if not model.is_grouped or not found:
        return ""
    return f"group {found[0]:,}" if len(found) == 1 else f"groups {found[0]:,}–{found[-1]:,}"


def _first_group(node: ModelNode) -> int:
    return next((slot.group for slot in node.slots if slot.rank is not None), 0)


def _ring(box: Box) -> tuple[Box, ...]:
    """Return the border, about as wide as the free middle."""
    across, down = (max(1, length // 3) for length in (box.width, box.height))
    thick = min(across, down)
    inside = box.height - 2 * thick
    return (
        Box(box.left, box.top, box.width, thick),
        Box(box.left, box.bottom - thick, box.width, thick),
        Box(box.left, box.top + thick, thick, inside),
        Box(box.right - thick, box.top + thick, thick, inside),
    )
