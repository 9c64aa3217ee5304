"""Markers on the grid, and the look of shard groups."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from torchdeck_app.launch.preview.placement.grid_layout import Box, Detail, Layout, Spot
from torchdeck_app.launch.preview.rank_grid_model import ModelNode, RankGridModel
from torchdeck_app.theme.palette import Palette

_ROUND = 5


class Markers(NamedTuple):
    """Markers on top of the model."""

    hovered: Spot | None = None
    selected: Spot | None = None
    focused: Spot | None = None
    """Keyboard position; None without focus."""
    drop: int | None = None
    """Node before which the dragged one would be inserted."""
    leaves: int | None = None
    """Node that is dragged off the grid, out of the run."""

    @property
    def drags(self) -> bool:
        """Return whether something is being dragged."""
        return self.drop is not None or self.leaves is not None


class MarkerShape:
    """Painter of markers over one grid at one zoom step."""

    def __init__(self, palette: Palette, model: RankGridModel, layout: Layout) -> None:
        self._palette = palette
        self._model = model
        self._layout = layout
        far = layout.step.detail in (Detail.TILES, Detail.CELLS)
        self._stripe = INSET if model.is_grouped and not far else 0

    def paint(self, painter: QPainter, shown: range, marks: Markers) -> None:
        """Paint `marks` on the cards `shown`."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if marks.selected is not None:
            self._paint_peers(painter, shown, marks.selected)
        if marks.hovered is not None:
            self._outline(painter, marks.hovered, self._palette.secondary, 1)
        if marks.selected is not None:
            self._outline(painter, marks.selected, self._palette.accent, 2)
        if marks.focused is not None and marks.focused != marks.selected:
            self._outline(painter, marks.focused, self._palette.text, 2)
        if marks.drop is not None:
            self._paint_drop(painter, marks.drop)
        if marks.leaves is not None:
            self._paint_leaving(painter, marks.leaves)

    def _paint_peers(self, painter: QPainter, shown: range, selected: Spot) -> None:
        """Paint the ranks with the other shards of the selected rank's model, and those with the same
        shard.
        """
        rank = self._rank_of(selected)
        if rank is None or self._model.shard == 1 or self._layout.step.detail is Detail.TILES:
            return
        group, replicas = self._model.group_of(rank), self._model.replicas_of(rank)
        for at, place in self._ranks_in(shown, group):
            self._outline(painter, Spot(at, place), self._palette.accent, 1)
        for at, place in self._ranks_in(shown, replicas):
            cell = self._layout.cell(at, place)
            radius = 2 if cell.height > 12 else 1
            painter.setBrush(QColor(self._palette.text))
            painter.setPen(Qt.PenStyle.NoPen)
            left = cell.left + self._stripe
            painter.drawEllipse(QPoint(left + radius + 2, cell.top + radius + 2), radius, radius)
            painter.setBrush(Qt.BrushStyle.NoBrush)

    def _ranks_in(self, shown: range, ranks: range) -> Iterable[tuple[int, int]]:
        for at in shown:
            for place, slot in enumerate(self._model.nodes[at].slots):
                if slot.rank is not None and slot.rank in ranks:
                    yield at, place

    def _rank_of(self, spot: Spot) -> int | None:
        return None if spot.slot is None else self._model.nodes[spot.node].slots[spot.slot].rank

    def _outline(self, painter: QPainter, spot: Spot, colour: str, width: int) -> None:
        box = self._layout.cards[spot.node] if spot.slot is None else self._layout.cell(spot.node, spot.slot)
        painter.setPen(QPen(QColor(colour), width))
        around = 0 if spot.slot is None else 1
        rectangle = QRect(
            box.left - around, box.top - around, box.width + 2 * around - 1, box.height + 2 * around - 1
        )
        radius = 1 if self._layout.step.detail in (Detail.TILES, Detail.CELLS) else _ROUND
        painter.drawRoundedRect(rectangle, radius, radius)

    def _paint_leaving(self, painter: QPainter, node: int) -> None:
        """Paint a node as unused, and struck out."""
        card = self._layout.cards[node]
        veil = QColor(self._palette.window)
        veil.setAlpha(176)
        painter.fillRect(QRect(*card), veil)
        painter.setPen(QPen(QColor(self._palette.bad), 2, Qt.PenStyle.DashLine))
        painter.drawRoundedRect(QRect(card.left, card.top, card.width - 1, card.height - 1), _ROUND, _ROUND)
        painter.drawLine(card.left, card.bottom, card.right, card.top)

    def _paint_drop(self, painter: QPainter, before: int) -> None:
        margin = self._layout.step.margin
        if before < len(self._layout.cards):
            card = self._layout.cards[before]
            x = card.left - margin // 2
        else:
            card = self._layout.cards[-1]
            x = card.right + margin // 2
        painter.setPen(QPen(QColor(self._palette.accent), 3))
        painter.drawLine(x, card.top, x, card.bottom)


# Look of shard groups: a colour, a fill, and their number. Without Qt.

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
