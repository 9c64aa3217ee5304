"""Keyboard navigation on the grid, and the selection after the grid changes. Without Qt."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck_app.launch.preview.placement.grid_layout import Box, Detail, Layout, Spot
from torchdeck_app.launch.preview.rank_grid_model import ModelNode, RankGridModel


def moved(layout: Layout, spot: Spot, direction: str) -> Spot:
    """Return the node or slot reached from `spot`; itself if there is none.

    Args:
        layout: a layout with at least one card.
        spot: current position.
        direction: `left` and `right` go through nodes and their slots in order, `up` and `down` to the
            nearest item there; `first` and `last`.
    """
    if direction == "first":
        return Spot(0)
    if direction == "last":
        return _last(layout, len(layout.cards) - 1)
    if direction in ("left", "right"):
        return _next(layout, spot) if direction == "right" else _previous(layout, spot)
    return _vertically(layout, spot, 1 if direction == "down" else -1)


def _has_slots(layout: Layout, node: int) -> bool:
    return layout.step.detail is not Detail.TILES and layout.slots[node] > 0


def _last(layout: Layout, node: int) -> Spot:
    return Spot(node, layout.slots[node] - 1) if _has_slots(layout, node) else Spot(node)


def _next(layout: Layout, spot: Spot) -> Spot:
    following = 0 if spot.slot is None else spot.slot + 1
    if _has_slots(layout, spot.node) and following < layout.slots[spot.node]:
        return Spot(spot.node, following)
    return Spot(spot.node + 1) if spot.node + 1 < len(layout.cards) else spot


def _previous(layout: Layout, spot: Spot) -> Spot:
    if spot.slot is not None:
        return Spot(spot.node, spot.slot - 1) if spot.slot > 0 else Spot(spot.node)
    return _last(layout, spot.node - 1) if spot.node > 0 else spot


def _vertically(layout: Layout, spot: Spot, sign: int) -> Spot:
    """Return the nearest item below (1) or above (-1), with double weight for sideways distance; a card's
    heading or cells.
    """
    here = _box(layout, spot)
    x, y = here.left + here.width / 2, here.top + here.height / 2

    def distance(other: Spot) -> float:
        box = _box(layout, other)
        across = max(box.left - x, x - box.right, 0)
        return abs(box.top + box.height / 2 - y) + 2 * across

    def lies_there(other: Spot) -> bool:
        box = _box(layout, other)
        return box.top >= here.bottom if sign > 0 else box.bottom <= here.top

    connector = 2 * max(card.height for card in layout.cards) + layout.step.margin
    near = layout.cards_between(here.top - connector, here.bottom + connector)
    spots = [each for node in near for each in _spots(layout, node) if lies_there(each)]
    return min(spots, key=distance, default=spot)


def _spots(layout: Layout, node: int) -> list[Spot]:
    slots = range(layout.slots[node]) if _has_slots(layout, node) else range(0)
    return [Spot(node), *(Spot(node, slot) for slot in slots)]


def _box(layout: Layout, spot: Spot) -> Box:
    """Return the box of a spot; only the heading for a node whose slots are shown."""
    if spot.slot is not None:
        return layout.cell(spot.node, spot.slot)
    card = layout.cards[spot.node]
    return card._replace(height=max(1, layout.step.header)) if _has_slots(layout, spot.node) else card


# Position of keyboard and selection on the grid after it changes or a node is moved. Without Qt.


def same_spot(before: RankGridModel, spot: Spot, now: RankGridModel) -> Spot | None:
    """Return the current position of the node or device of `spot`; None if it is gone."""
    if spot.node >= len(before.nodes):
        return None
    old = before.nodes[spot.node]
    at = next((at for at, node in enumerate(now.nodes) if node.name == old.name), None)
    if at is None or spot.slot is None or spot.slot < len(now.nodes[at].slots):
        return None if at is None else Spot(at, spot.slot)
    return Spot(at)


def past_neighbour(nodes: Sequence[ModelNode], at: int, *, up: bool) -> int | None:
    """Return before which node the one at `at` comes when it is moved past the next node of the run."""
    others = range(at - 1, -1, -1) if up else range(at + 1, len(nodes))
    other = next((number for number in others if nodes[number].is_on), None)
    if other is None:
        return None
    return other if up else other + 1
