"""Where keyboard and selection are on the board when the board changes or a node is moved. Without Qt."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck_app.launch.preview.placement.layout import Spot
from torchdeck_app.launch.preview.rank_grid_model import ModelNode, RankGridModel


def same_spot(before: RankGridModel, spot: Spot, now: RankGridModel) -> Spot | None:
    """Where the node or device of `spot` is now; None where it is gone."""
    if spot.node >= len(before.nodes):
        return None
    old = before.nodes[spot.node]
    at = next((at for at, node in enumerate(now.nodes) if node.name == old.name), None)
    if at is None or spot.slot is None or spot.slot < len(now.nodes[at].slots):
        return None if at is None else Spot(at, spot.slot)
    return Spot(at)


def past_neighbour(nodes: Sequence[ModelNode], at: int, *, up: bool) -> int | None:
    """Before which node the one at `at` comes when it passes the next one that is in the run too."""
    others = range(at - 1, -1, -1) if up else range(at + 1, len(nodes))
    other = next((number for number in others if nodes[number].is_on), None)
    if other is None:
        return None
    return other if up else other + 1
