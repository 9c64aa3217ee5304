"""Position of keyboard and selection on the grid after it changes or a node is moved. Without Qt."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck_app.launch.preview.placement.layout import Spot
from torchdeck_app.launch.preview.rank_grid_model import ModelNode, RankGridModel


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
