"""Facts of the selected rank or node. Without Qt."""

from __future__ import annotations

from typing import NamedTuple

from torchdeck.plan.preview.headline import percent
from torchdeck.plan.preview.rank import RankPreview
from torchdeck.quantities import size
from torchdeck_app.launch.preview.placement.words import of_capacity
from torchdeck_app.launch.preview.rank_grid_model import ModelNode, Need, RankGridModel, Slot

_UNKNOWN = "–"
COMPUTED = 2
"""Index of the first fact of a rank that has to be computed."""
_SHOWN = 8
"""Maximum sample ids shown of the first microbatch."""


class Fact(NamedTuple):
    """One fact."""

    name: str
    value: str
    more: str = ""
    """Tooltip: the exact value, or an explanation."""


def placed_facts(model: RankGridModel, slot: Slot) -> tuple[Fact, ...]:
    """Return the facts of a slot's rank that need no computation."""
    return (_memory(slot.need), _part(model, slot.rank), Fact("reads", "…"), Fact("holds", "…"))


def rank_facts(model: RankGridModel, slot: Slot, rank: RankPreview) -> tuple[Fact, ...]:
    """Return the same facts with the computed ones."""
    return (_memory(slot.need, rank), _part(model, slot.rank), _reads(rank), _holds(rank))


def run_facts(model: RankGridModel) -> tuple[Fact, ...]:
    """Return the facts of the whole run."""
    devices = [slot for node in model.nodes for slot in node.slots if slot.index is not None]
    unused = sum(slot.rank is None for slot in devices)
    used = sum(node.is_on for node in model.nodes)
    nodes = f"{used:,}" if used == len(model.nodes) else f"{used:,} of {len(model.nodes):,}"
    return (
        Fact("ranks", f"{model.world_size:,}"),
        Fact("nodes", nodes),
        Fact("devices", f"{len(devices) - unused:,} of {len(devices):,}" if devices else "CPU"),
        _whole(model, "all of it on each")
        if model.shard == 1
        else Fact("model", f"in {model.shard:,} parts"),
    )


def node_facts(node: ModelNode) -> tuple[Fact, ...]:
    """Return the facts of a node; the same number of facts."""
    worst = max(
        (slot.need for slot in node.slots if slot.need is not None),
        key=lambda need: need.share or 0.0,
        default=None,
    )
    devices = sum(slot.index is not None for slot in node.slots)
    free = sum(slot.index is not None and slot.rank is None for slot in node.slots)
    memory = _memory(worst)
    return (
        memory._replace(name="fullest device"),
        Fact("ranks", f"{node.ranks:,}"),
        Fact("devices", f"{devices:,}" if devices else "CPU"),
        Fact("not used", f"{free:,}"),
    )


def _memory(need: Need | None, rank: RankPreview | None = None) -> Fact:
    if need is None:
        return Fact("peak memory", _UNKNOWN, "Model size unknown")
    text = size(need.peak_bytes)
    if need.capacity_bytes and need.share is not None:
        text = f"{of_capacity(need)}, {percent(need.share)}"
    more = f"{need.peak_bytes:,} bytes: {need.verdict}"
    if rank is not None and rank.memory is not None:
        more += f"; expected between {rank.memory.low_bytes:,} and {rank.memory.high_bytes:,}"
        more += f"; the peak is in {rank.memory.phase}"
    return Fact("peak memory", text, more)


def _whole(model: RankGridModel, text: str) -> Fact:
    """Return the fact for ranks without sharding."""
    if model.is_known:
        return Fact("model", text, "Every rank holds the whole model")
    return Fact("model", _UNKNOWN, "Model size unknown")


def _part(model: RankGridModel, rank: int | None) -> Fact:
    if rank is None or model.shard == 1:
        return _whole(model, "all of it")
    group = model.group_of(rank)
    text = f"part {rank - group.start + 1:,} of {model.shard:,}"
    more = f"Ranks {group.start:,} to {group.stop - 1:,} hold one model between them"
    if model.groups > 1:
        text += f", group {rank // model.shard:,}"
        replicas = [f"{other:,}" for other in model.replicas_of(rank)[:6]]
        more += (
            f"; the same part is on ranks {', '.join(replicas)}{' …' if model.groups > len(replicas) else ''}"
        )
    return Fact("model", text, more)


def _reads(rank: RankPreview) -> Fact:
    if rank.samples is None:
        return Fact("reads", _UNKNOWN, "Nothing is known of the data")
    text, more = f"{rank.samples:,} samples", "in the whole run"
    if rank.tokens is not None:
        more = f"{rank.tokens:,.0f} tokens in the whole run"
    if rank.microbatches:
        ids = rank.microbatches[0].sample_ids
        shown = ", ".join(map(str, ids[:_SHOWN]))
        more += f"; the first microbatch is of samples {shown}{' …' if len(ids) > _SHOWN else ''}"
    return Fact("reads", text, more)


def _holds(rank: RankPreview) -> Fact:
    if not rank.tensors:
        return Fact("holds", _UNKNOWN, "Model size unknown")
    return Fact("holds", f"{len(rank.tensors):,} tensors", "The tab Parameters has them one by one")
