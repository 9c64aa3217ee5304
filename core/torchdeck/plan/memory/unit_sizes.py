"""Bytes of each FSDP unit at each stage of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchdeck.contract.plan.model_profile import ITEM_SIZES, ModelProfile, TensorInfo
from torchdeck.plan.memory.remembered import remembered
from torchdeck.plan.memory.sharding import padded_elements, rows
from torchdeck.plan.memory.spec import StrategySpec

_FLOATING = frozenset({"float64", "float32", "bfloat16", "float16"})


@dataclass(frozen=True)
class UnitSizes:
    """Sizes of one unit, in bytes."""

    gathered: int
    """Stored shards of all ranks in the forward's precision."""
    brought: int
    """This rank's shard in transfer from host memory to the device, if it is kept on the host."""
    cast: int
    """This rank's shard in that precision, if it differs from the weights' precision."""
    scattered: int
    """Input of the reduce-scatter: gradients, padded, in the reduction's precision."""
    reduced: int
    """Output of the reduce-scatter."""
    gradient: int
    """The rank's gradients for the optimizer, in the weights' precision."""
    padded: int
    """Copies of gradients whose rows do not divide evenly, made while they are packed."""


def unit_sizes(profile: ModelProfile, spec: StrategySpec) -> tuple[UnitSizes, ...]:
    """Return the sizes of every unit of `profile` under fsdp or hsdp, in their order."""
    return remembered(profile, ("unit sizes", spec), lambda: _unit_sizes(profile, spec))


def _unit_sizes(profile: ModelProfile, spec: StrategySpec) -> tuple[UnitSizes, ...]:
    members: list[list[TensorInfo]] = [[] for _ in profile.units]
    for tensor in profile.parameters:
        members[tensor.unit].append(tensor)
    return tuple(_sizes(tensors, spec) for tensors in members)


def _sizes(tensors: Sequence[TensorInfo], spec: StrategySpec) -> UnitSizes:
    ranks = spec.shard
    padded = [(tensor, padded_elements(tensor, ranks)) for tensor in tensors]
    trainable = [(tensor, count) for tensor, count in padded if tensor.trainable]
    stored = sum(count * _param_size(tensor, spec) for tensor, count in padded)
    elements = sum(count for _, count in trainable)
    uneven = [(tensor, count) for tensor, count in trainable if rows(tensor) % ranks]
    return UnitSizes(
        gathered=ranks * stored,
        brought=sum(count * ITEM_SIZES[t.dtype] for t, count in padded) if spec.state_on_host else 0,
        cast=stored if any(_param_size(t, spec) != ITEM_SIZES[t.dtype] for t in tensors) else 0,
        scattered=ranks * elements * spec.reduce_size,
        reduced=elements * spec.reduce_size,
        gradient=sum(count * ITEM_SIZES[tensor.dtype] for tensor, count in trainable),
        padded=sum(ranks * count * _param_size(tensor, spec) for tensor, count in uneven),
    )


def _param_size(tensor: TensorInfo, spec: StrategySpec) -> int:
    return spec.param_size if tensor.dtype in _FLOATING else ITEM_SIZES[tensor.dtype]
