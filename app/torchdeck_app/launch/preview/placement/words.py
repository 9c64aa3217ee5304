"""Grid content in words: for tooltips and screen readers."""

from __future__ import annotations

from torchdeck.plan.preview.headline import percent
from torchdeck.quantities import size
from torchdeck_app.launch.preview.placement.layout import Spot
from torchdeck_app.launch.preview.rank_grid_model import ModelNode, Need, RankGridModel, Slot


def spot_text(model: RankGridModel, spot: Spot) -> str:
    """Return a node or slot in a line or two."""
    node = model.nodes[spot.node]
    return node_text(node) if spot.slot is None else slot_text(model, node, node.slots[spot.slot])


def node_text(node: ModelNode) -> str:
    """Return `gpu00: 8 × H100, ranks 0 to 7`."""
    devices = sum(slot.index is not None for slot in node.slots)
    kind = f"{devices} × {node.kind}" if devices else node.kind
    ranks = [slot.rank for slot in node.slots if slot.rank is not None]
    if not ranks:
        return f"{node.name}: {kind}, not used"
    numbers = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {min(ranks)} to {max(ranks)}"
    return f"{node.name}: {kind}, {numbers}"


def slot_text(model: RankGridModel, node: ModelNode, slot: Slot) -> str:
    """Return `rank 3: cuda:3 of gpu00`, with its shard group, and its memory on the next line."""
    if slot.rank is None:
        return f"{slot.device} of {node.name}: not used"
    where = f"rank {slot.rank}: {slot.device} of {node.name}"
    if model.is_grouped:
        where += f", group {slot.group:,} of 0 to {model.groups - 1:,}"
    return where if slot.need is None else f"{where}\n{need_text(slot.need)}"


def need_text(need: Need) -> str:
    """Return `29.8 GiB of 40.0 GiB, 74 %: fits`."""
    if need.share is None or need.capacity_bytes is None:
        return f"{size(need.peak_bytes)} at its peak"
    return f"{size(need.peak_bytes)} of {size(need.capacity_bytes)}, {percent(need.share)}: {need.verdict}"


def of_capacity(need: Need) -> str:
    """Return `29.8/40.0 GiB`, in one unit if both have it; only the peak if the capacity is unknown."""
    peak = size(need.peak_bytes)
    if need.capacity_bytes is None:
        return peak
    whole = size(need.capacity_bytes)
    number, unit = peak.split()
    return f"{number}/{whole}" if whole.endswith(f" {unit}") else f"{peak}/{whole}"
