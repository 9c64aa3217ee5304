"""Comparison of the memory that every rank needs with the capacity of its device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from torchdeck.config.schema import RunConfig
from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.groups import shard_groups
from torchdeck.plan.known import Known
from torchdeck.plan.memory.fullness import MemoryPreview
from torchdeck.plan.memory.memory_timeline import Term
from torchdeck.plan.memory.predict import memory_notes, predict_memory
from torchdeck.plan.memory.replay import UntracedError
from torchdeck.plan.memory.spec import FULLY_SHARDED, StrategySpec, spec_from
from torchdeck.plan.memory.suggest import Suggestion, suggest
from torchdeck.plan.placement import NodeShare
from torchdeck.quantities import size

if TYPE_CHECKING:
    from torchdeck.data.batch_plan import BatchPlan
    from torchdeck.data.batch_plan.columns import EpochColumns, Ints, Microbatch
    from torchdeck.plan.hugging_face.program_model import ProgramModel


_SUGGESTED = 3
Sizes = list[int | None]
"""Bytes of each rank; None if unknown."""


def spec_of(config: RunConfig, shares: Sequence[NodeShare], backend: str, known: Known) -> StrategySpec:
    """Return how a run divides its model, with the heaviest microbatch of its batch plan instead of the usual
    one.

    Raises:
        PlanError: the groups of hsdp do not divide evenly.
    """
    device: Literal["cpu", "cuda"] = "cuda" if any(share.devices for share in shares) else "cpu"
    if known.models:
        return _spec_of_program(known.models[0], shares, device, backend)
    shard = None
    if config.distributed.strategy == "hsdp":
        shard = shard_groups(shares, config.distributed.hsdp.shard).shard
    world_size = sum(share.nproc for share in shares)
    if known.training is not None:
        config = config.model_copy(update={"training": known.training})
    spec = spec_from(config, world_size, device=device, backend=backend, shard=shard)
    if known.batch_plan is None:
        return spec
    heaviest = heaviest_microbatch(known.batch_plan)
    if heaviest is None:
        return spec
    each = None if known.profile is None else known.profile.tokens_per_sample
    if each is None or known.profile is None or known.profile.source == "traced":
        return replace(spec, microbatch=heaviest.batch_size)
    return replace(
        spec, microbatch=math.ceil(heaviest.padded_tokens / each)
    )  # samples as defined in [estimate]


def _spec_of_program(
    model: ProgramModel, shares: Sequence[NodeShare], device: str, backend: str
) -> StrategySpec:
    counts = [share.nproc for share in shares]
    of_node = counts[0] if len(set(counts)) == 1 else None
    return model.training.spec(sum(counts), of_node, device, backend)


def fitted(
    config: RunConfig, spec: StrategySpec, shares: Sequence[NodeShare], known: Known
) -> tuple[tuple[PredictedMemory, ...], tuple[str, ...]]:
    """Return the requirements of the ranks, grouped by equal needs, and notes on them.

    Args:
        config: a run whose model is known.
        spec: how it is divided.
        shares: the ranks on every node.
        known: facts with a profile.
    """
    if known.profile is None:
        return (), ()
    # with a queue the run starts after the current users of the memory are gone
    free = None if config.launch.queue else free_bytes(shares)
    try:
        groups = predict_memory(known.profile, spec, capacities(shares), free)
    except UntracedError as error:
        return (), (f"memory is not predicted: {error}",)
    if known.models:
        return _range(config, groups, shares, spec, known)
    notes = memory_notes(known.profile, spec)
    if spec.kind in FULLY_SHARDED and spec.shard > 1 and spec.accumulation > 1:
        notes += (_whole_gradients(spec, groups),)
    if config.training.compile:
        notes += ("the memory is that of the uncompiled model; training.compile may need less or more",)
    if known.batch_plan is not None:
        heaviest = f"memory is that of the batch plan's heaviest microbatch, {spec.microbatch:,} samples"
        notes += (heaviest,)
    return groups, notes


def _range(
    config: RunConfig,
    groups: Sequence[PredictedMemory],
    shares: Sequence[NodeShare],
    spec: StrategySpec,
    known: Known,
) -> tuple[tuple[PredictedMemory, ...], tuple[str, ...]]:
    """Return the range of a program's memory, and notes on it."""
    from torchdeck.plan.hugging_face.program_model import ranged

    first, last = known.models[0], known.models[-1]
    notes = memory_notes(first.profile, spec)
    if last is first:
        return ranged(groups, first), notes
    free = None if config.launch.queue else free_bytes(shares)
    more = _spec_of_program(last, shares, spec.device, spec.backend)
    upper = predict_memory(last.profile, more, capacities(shares), free)
    kinds = (
        f"the range covers weights loaded in {first.training.stored}, as the config.json has them "
        f"(transformers 5), and in {last.training.stored} (earlier ones and TRL)"
    )
    return ranged(groups, first, upper, last), (*notes, kinds)


def _whole_gradients(spec: StrategySpec, groups: Sequence[PredictedMemory]) -> str:
    most = max(group.terms.get(Term.GRADIENTS.label, 0) for group in groups)
    return (
        f"with training.accumulation = {spec.accumulation} gradients stay unsharded between "
        f"microbatches under {spec.kind}, {size(most)} of the peak; with 1 they are sharded at once"
    )


def suggested(spec: StrategySpec, memory: MemoryPreview, known: Known) -> tuple[Suggestion, ...]:
    """Return the cheapest changes that make it fit; empty if it does, or if no tried change is enough."""
    # a change must fit every rank: the one with the least memory decides, whichever that is
    rooms = [room for group in memory.groups for room in (group.capacity_bytes, group.free_bytes)]
    least = min((room for room in rooms if room is not None), default=None)
    if least is None or memory.verdict not in ("tight", "does not fit"):
        return ()
    return _below(spec, least, known)


def cheaper(spec: StrategySpec, groups: Sequence[PredictedMemory], known: Known) -> tuple[str, ...]:
    """Return the changes that need clearly less memory than predicted, as sentences, the nearest first.

    They are for a run that runs out of memory although it should fit.
    """
    peak = max((group.peak_bytes for group in groups), default=0)
    return tuple(change.sentence for change in _below(spec, peak, known)) if peak else ()


def _below(spec: StrategySpec, least: int, known: Known) -> tuple[Suggestion, ...]:
    """Return the cheapest changes after which `spec` fits into `least` bytes."""
    if known.profile is None:
        return ()
    keep, profile = known.batch_plan is not None, known.profile
    if known.models:  # a change must be enough for the larger of two
        profile, own = known.models[-1].profile, known.models[-1].training
        shard = spec.shard if spec.kind == "hsdp" else None
        spec = own.spec(spec.world_size, shard, spec.device, spec.backend)
    found = suggest(
        profile,
        spec,
        least,
        others=known.others,
        keep_microbatch=keep,
        eight_bit=bool(known.models),
    )[:_SUGGESTED]
    if known.models:
        from torchdeck.plan.hugging_face.program_model import by_own_names

        return tuple(by_own_names(one, known.models[0].training.names) for one in found)
    if known.training is None:
        return found
    # a script handles them itself, not through run.toml
    return tuple(replace(one, sentence=one.sentence.replace("training.", "the script's ")) for one in found)


def capacities(shares: Sequence[NodeShare]) -> Sizes:
    """Return the capacity of each rank's device; for a CPU rank its share of the machine's memory."""
    sizes: Sizes = []
    for share in shares:
        if share.devices:
            sizes += [device.memory_bytes or None for device in share.devices]
        else:
            sizes += [_part(share.node.memory_bytes or None, share.nproc)] * share.nproc
    return sizes


def free_bytes(shares: Sequence[NodeShare]) -> Sizes:
    """Return how much of it was free at the probe."""
    sizes: Sizes = []
    for share in shares:
        if share.devices:
            sizes += [device.free_bytes for device in share.devices]
        else:
            sizes += [_part(share.node.free_bytes, share.nproc)] * share.nproc
    return sizes


def _part(size: int | None, ranks: int) -> int | None:
    return None if size is None else size // ranks


# Microbatch of a batch plan that takes the most memory.


def heaviest_microbatch(plan: BatchPlan) -> Microbatch | None:
    """Return the microbatch with the most tokens, padding counted, and of these the one with the longest
    rows.

    Returns:
        The first such one; None if the plan is empty.
    """
    return _first_largest(plan, lambda columns: (columns.padded_tokens, columns.max_len))


def heavy_microbatches(plan: BatchPlan) -> tuple[Microbatch, ...]:
    """Return candidates, one of which takes the most memory.

    Activations grow with tokens, and attention's scores, in models that keep them, with tokens times length.

    Returns:
        `heaviest_microbatch`, and the one with the most scores if it is another; () for an empty plan.
    """
    found = (
        heaviest_microbatch(plan),
        _first_largest(
            plan, lambda columns: (columns.padded_tokens * columns.max_len, columns.padded_tokens)
        ),
    )
    distinct = {(one.rows, one.max_len): one for one in found if one is not None}
    return tuple(distinct.values())


def _first_largest(
    plan: BatchPlan, weights: Callable[[EpochColumns], tuple[Ints, Ints]]
) -> Microbatch | None:
    """Return the first with the largest weight, and among equals the one with the largest second weight."""
    best: tuple[tuple[int, int], int, int] | None = None
    for epoch in range(plan.epochs):
        columns = plan.epoch_columns(epoch)
        if not len(columns):
            continue
        first, second = weights(columns)
        index = int(np.argmax(np.where(first == first.max(), second, -1)))
        weight = (int(first[index]), int(second[index]))
        if best is None or weight > best[0]:
            best = (weight, epoch, index)
    return None if best is None else plan.microbatch(best[1], best[2])
