"""Headline of a preview."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchdeck.plan.memory.fullness import MemoryPreview, fullness
from torchdeck.quantities import size

if TYPE_CHECKING:
    from torchdeck.plan.preview.preview import Preview


_TIMES = 10
_LEAST = 0.005


def headline(preview: Preview) -> str:
    """Return ranks, strategy and verdict: `2 ranks on localhost, ddp over gloo: fits: 3.1 GiB of 80.0 GiB, 4
    %`.
    """
    where = placement_line(preview)
    if preview.known.broken:
        return f"{where}: {preview.known.broken}"
    return where if preview.memory is None else f"{where}: {verdict_line(preview.memory)}"


def placement_line(preview: Preview) -> str:
    """Return `2 ranks on localhost, ddp over gloo`."""
    plan, nodes = preview.plan, preview.board.nodes
    ranks = f"{plan.world_size:,} rank{'' if plan.world_size == 1 else 's'}"
    where = nodes[0].name if len(nodes) == 1 else f"{len(nodes):,} nodes"
    strategy = f", {plan.strategy}"
    if plan.batch is None:  # a script decides this itself: only an estimate assumes it
        strategy = "" if preview.memory is None else f"{strategy} assumed"
    how = f"{strategy} over {plan.backend}"
    return f"{ranks} on {where}{how}"


def verdict_line(memory: MemoryPreview) -> str:
    """Return `fits: 3.1 GiB of 80.0 GiB, 4 %` for the decisive ranks."""
    group = memory.decisive
    filled = fullness(group)
    said = f"{memory.verdict} (estimated)" if memory.source == "closed form" else memory.verdict
    if filled is None:
        return f"memory {said}: {size(group.peak_bytes)} a rank"
    return f"{said}: {size(group.peak_bytes)} of {size(group.capacity_bytes or 0)}, {percent(filled)}"


def percent(share: float) -> str:
    """Return `74 %`; `under 1 %` instead of a value that rounds to 0, `21 times` for a value far too
    large.
    """
    if share >= _TIMES:
        return f"{share:.0f} times"
    return "under 1 %" if 0 < share < _LEAST else f"{share * 100:.0f} %"
