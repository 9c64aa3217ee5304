"""Positions of cards, cells and tiles on the grid at each zoom step. Pixels, from the grid's top left."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple


class Detail(Enum):
    """Level of detail that fits."""

    TILES = 0
    """One tile per node."""
    CELLS = 1
    """One cell per rank, without text; the node's name where there is a heading."""
    NUMBERS = 2
    """One cell per rank with its number."""
    WORDS = 3
    """One cell per rank with number, device and memory."""


class Step(NamedTuple):
    """Zoom step: sizes in pixels."""

    detail: Detail
    width: int
    """Width of a cell, or of a tile."""
    height: int
    gap: int
    """Gap between cells."""
    padding: int
    """Padding inside a card."""
    header: int
    """Height of a card's heading; 0 without one."""
    margin: int
    """Margin between cards."""
    least: int = 0
    """Minimum width of a card, to fit its heading."""


STEPS = (
    Step(Detail.TILES, 8, 8, 0, 0, 0, 3),
    Step(Detail.TILES, 14, 14, 0, 0, 0, 4),
    Step(Detail.CELLS, 5, 5, 1, 2, 0, 4),
    Step(Detail.CELLS, 7, 7, 1, 3, 0, 6),
    Step(Detail.CELLS, 10, 10, 2, 4, 0, 8),
    Step(Detail.CELLS, 18, 14, 2, 6, 0, 8),
    Step(Detail.CELLS, 22, 12, 2, 6, 20, 8, 96),
    Step(Detail.CELLS, 32, 18, 2, 6, 20, 8, 112),
    Step(Detail.NUMBERS, 36, 24, 4, 8, 32, 8, 128),
    Step(Detail.NUMBERS, 48, 32, 4, 8, 36, 12, 160),
    Step(Detail.WORDS, 148, 52, 8, 12, 40, 16, 288),
    Step(Detail.WORDS, 184, 60, 8, 12, 40, 16, 384),
)
"""Zoom steps, from far to near."""
SWITCH = 16
"""Width and height of the checkbox that switches a node or a device on and off."""


class Box(NamedTuple):
    """Rectangle; right and bottom are exclusive."""

    left: int
    top: int
    width: int
    height: int

    @property
    def right(self) -> int:
        return self.left + self.width

    @property
    def bottom(self) -> int:
        return self.top + self.height

    def holds(self, x: float, y: float) -> bool:
        return self.left <= x < self.right and self.top <= y < self.bottom

    def meets(self, other: Box) -> bool:
        """Return whether the two overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


class Spot(NamedTuple):
    """Selectable item: a node, or one of its slots."""

    node: int
    slot: int | None = None


@dataclass(frozen=True)
class Layout:
    """Layout of cards in rows from left to right."""

    step: Step
    cards: tuple[Box, ...]
    columns: tuple[int, ...]
    """Number of columns of cells in each card."""
    slots: tuple[int, ...]
    """Number of cells of each card."""
    width: int
    height: int

    def cell(self, node: int, slot: int) -> Box:
        """Return the box of a slot; the whole tile if slots are not shown."""
        step, card = self.step, self.cards[node]
        if step.detail is Detail.TILES:
            return card
        row, column = divmod(slot, self.columns[node])
        return Box(
            card.left + step.padding + column * (step.width + step.gap),
            card.top + _above(step) + row * (step.height + step.gap),
            step.width,
            step.height,
        )

    def switch(self, spot: Spot) -> Box | None:
        """Return the box of a node's or device's checkbox; None if it does not fit."""
        step, card = self.step, self.cards[spot.node]
        if spot.slot is None:
            if not step.header or step.detail is Detail.CELLS:
                return None
            return Box(card.left + step.padding, card.top + (step.header - SWITCH) // 2, SWITCH, SWITCH)
        if step.detail is not Detail.WORDS:
            return None
        cell = self.cell(spot.node, spot.slot)
        return Box(cell.right - SWITCH - 8, cell.top + 6, SWITCH, SWITCH)

    def spot_at(self, x: float, y: float) -> Spot | None:
        """Return the item at a point; a slot takes precedence over its node."""
        for node in self.cards_between(y, y + 1):
            if not self.cards[node].holds(x, y):
                continue
            if self.step.detail is not Detail.TILES:
                slot = self._slot_at(node, x, y)
                if slot is not None:
                    return Spot(node, slot)
            return Spot(node)
        return None

    def cards_between(self, top: float, bottom: float) -> range:
        """Return the cards of the rows between `top` and `bottom`, with few others."""
        first = max(0, bisect_right(self._row_tops, top) - 1)
        last = bisect_right(self._row_tops, bottom - 1e-9)
        starts = self._row_starts
        return range(starts[first], starts[last]) if first < last else range(0)

    def place_in(self, other: Layout, x: float, y: float) -> tuple[float, float]:
        """Return where in `other`, a layout of the same nodes, is what is at a point of this one.

        Between cards it is that of the nearest card of the row.
        """
        row = max(0, min(bisect_right(self._row_tops, y) - 1, len(self._row_tops) - 1))
        nodes = range(self._row_starts[row], self._row_starts[row + 1])
        node = min(nodes, key=lambda node: max(self.cards[node].left - x, x - self.cards[node].right, 0))
        here, there = self.cards[node], other.cards[node]
        across, down = (x - here.left) / here.width, (y - here.top) / here.height
        return there.left + across * there.width, there.top + down * there.height

    def gap_at(self, x: float, y: float) -> int:
        """Return the card before which an item dropped at a point is inserted; the number of cards: at the
        end.
        """
        rows = max(0, min(bisect_right(self._row_tops, y) - 1, len(self._row_tops) - 1))
        for node in range(self._row_starts[rows], self._row_starts[rows + 1]):
            card = self.cards[node]
            if x < card.left + card.width / 2:
                return node
        return self._row_starts[rows + 1]

    def _slot_at(self, node: int, x: float, y: float) -> int | None:
        step, card = self.step, self.cards[node]
        column = int((x - card.left - step.padding) // (step.width + step.gap))
        row = int((y - card.top - _above(step)) // (step.height + step.gap))
        slot = row * self.columns[node] + column
        inside = 0 <= column < self.columns[node] and row >= 0 and slot < self.slots[node]
        return slot if inside and self.cell(node, slot).holds(x, y) else None

    @cached_property
    def _row_starts(self) -> tuple[int, ...]:
        """Return the first card of each row, and the number of cards."""
        starts = [at for at, card in enumerate(self.cards) if at == 0 or card.top != self.cards[at - 1].top]
        return (*starts, len(self.cards))

    @cached_property
    def _row_tops(self) -> tuple[int, ...]:
        return tuple(self.cards[start].top for start in self._row_starts[:-1])


def lay_out(slots: Sequence[int], step: Step, room: int) -> Layout:
    """Lay out cards side by side within `room`, wrapping to rows.

    Args:
        slots: number of slots of each node.
        step: sizes.
        room: width of the grid; one card may be wider.
    """
    across = {count: _columns(count, step, room) for count in set(slots)}
    sizes = {count: _card_size(count, columns, step) for count, columns in across.items()}
    cards: list[Box] = []
    left = top = step.margin
    tallest = widest = 0
    for count in slots:
        width, height = sizes[count]
        if left > step.margin and left + width + step.margin > room:
            left, top, tallest = step.margin, top + tallest + step.margin, 0
        cards.append(Box(left, top, width, height))
        left += width + step.margin
        tallest, widest = max(tallest, height), max(widest, left)
    bottom = top + tallest + step.margin if cards else 0
    return Layout(step, tuple(cards), tuple(across[count] for count in slots), tuple(slots), widest, bottom)


def lay_out_in(slots: Sequence[int], step: Step, width: int, height: int, bar: int) -> Layout:
    """Same as `lay_out`, with space for a scroll bar of width `bar` at the side if one is needed."""
    laid = lay_out(slots, step, width)
    return laid if laid.height <= height else lay_out(slots, step, width - bar)


def fitting_step(slots: Sequence[int], width: int, height: int, *, most: int = len(STEPS) - 1) -> int:
    """Return the nearest step, at most `most`, at which the whole grid is visible; the farthest if there is
    none.
    """
    for number in range(most, 0, -1):
        if _area(slots, STEPS[number], width) > width * height:
            continue  # avoids laying out thousands
        laid = lay_out(slots, STEPS[number], width)
        if laid.width <= width and laid.height <= height:
            return number
    return 0


def _area(slots: Sequence[int], step: Step, room: int) -> int:
    """Return the pixels of the cards, each with the margin on two of its sides."""
    area = 0
    for count, cards in Counter(slots).items():
        width, height = _card_size(count, _columns(count, step, room), step)
        area += cards * (width + step.margin) * (height + step.margin)
    return area


def _above(step: Step) -> int:
    """Return the distance from a card's top to its first cell."""
    return step.header or step.padding


def _columns(count: int, step: Step, room: int) -> int:
    """Return the number of columns: nearly square for many cells, and no more than fit."""
    wanted = next((most for most in (1, 2, 4, 8) if count <= most * 2), 16)
    fits = (room - 2 * (step.margin + step.padding) + step.gap) // max(1, step.width + step.gap)
    return max(1, min(count, max(wanted, 2 if count > 1 else 1), fits))


def _card_size(count: int, columns: int, step: Step) -> tuple[int, int]:
    if step.detail is Detail.TILES:
        return step.width, step.height
    rows = -(-max(1, count) // columns)
    width = max(step.least, 2 * step.padding + columns * (step.width + step.gap) - step.gap)
    height = _above(step) + rows * (step.height + step.gap) - step.gap + step.padding
    return width, height
