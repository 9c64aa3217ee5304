"""State a rank keeps under DeepSpeed ZeRO, to the byte: read from DeepSpeed 0.19.8, compared with real ranks.

Exact for stages 1, 2 and 3, fp32 and bf16, with and without `offload_optimizer`, with torch's optimizers and
DeepSpeed's defaults (contiguous gradients, no round robin, gradients accumulated in the model's precision).
DeepSpeed's own scalars are not included: a norm of 8 bytes per parameter under offload, some flags.
Which part is in host memory under offload was read from the source; a CPU rank has only one memory. Under
fp16 the engine is that of fp32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from torchdeck.contract.plan.model_profile import ITEM_SIZES, TensorInfo
from torchdeck.plan.memory.optimizers import flat_bytes
from torchdeck.plan.memory.sharding import Bytes
from torchdeck.plan.memory.spec import PRECISION_SIZES, StrategySpec

_MASTER_SIZE = 4
"""Bytes per element of master weights, moments and offloaded gradients: fp32."""
_STEP_BYTES = 4
"""Adam's `step`: a float32 scalar for each flat partition that the optimizer receives."""
_ALIGNMENT = 2
"""Elements to which a partition of stages 1 and 2 is aligned (`nccl_start_alignment_factor`)."""
_MIB = 1 << 20
_STAGES = {"zero1": 1, "zero2": 2, "zero3": 3}


@dataclass(frozen=True)
class ZeroOptions:
    """Options of DeepSpeed's `zero_optimization` that memory depends on, with its defaults."""

    reduce_bucket: int = 500_000_000
    """`reduce_bucket_size`, in elements."""
    persistence: int = 100_000
    """`stage3_param_persistence_threshold`: parameters with at most this many elements stay gathered."""
    sub_group: int = 1_000_000_000
    """`sub_group_size`: local elements after which stage 3 begins another flat partition."""
    prefetch: int = 50_000_000
    """`stage3_prefetch_bucket_size`: elements that are gathered ahead."""
    max_live: int = 1_000_000_000
    """`stage3_max_live_parameters`: elements that stay gathered after use."""
    vectors_apart: bool = True
    """Whether vectors form a parameter group of their own, as with weight decay (`make_optimizer`)."""

    @classmethod
    def of(cls, spec: StrategySpec) -> ZeroOptions:
        """Return the options of a run: distributed/strategies/deepspeed/strategy.py leaves the others at
        their defaults.
        """
        return cls(
            reduce_bucket=max(1, int(spec.zero_bucket_mb * _MIB) // PRECISION_SIZES[spec.engine_precision])
        )


@dataclass(frozen=True)
class ZeroShare:
    """Bytes in one memory, one element per requested rank, shape (n,) each."""

    parameters: Bytes
    gradients: Bytes
    optimizer: Bytes
    """Master weights and moments, and the moving average of the weights if there is one."""
    buffers: Bytes
    """Buffers held between steps: stage 3's bucket, offload's copy buffers."""

    @property
    def total(self) -> Bytes:
        """Sum of all fields, shape (n,)."""
        return self.parameters + self.gradients + self.optimizer + self.buffers


@dataclass(frozen=True)
class ZeroState:
    """State of each rank when an optimizer step begins."""

    device: ZeroShare
    host: ZeroShare
    """State in host memory; zeros without offload."""
    passing_gradients: Bytes
    """Share of the device's gradients that the step frees, shape (n,); the rest stays allocated."""
    update_gradients: Bytes
    """Device, during the optimizer's update, shape (n,): fp32 gradients of the partition, created for it."""


@dataclass(frozen=True)
class _Layout:
    """Numeric settings of a training run."""

    item: int
    """Bytes per element of the model's precision."""
    world_size: int
    ranks: Bytes
    algorithm: str
    momentum: float
    steps: bool
    """Whether the optimizer keeps a step count per partition."""
    averages: bool
    """Whether a moving average of the weights is kept."""
    accumulation: int
    options: ZeroOptions

    def each(self, size: int) -> Bytes:
        """Return the same size for every rank, shape (n,)."""
        return np.full(len(self.ranks), size, dtype=np.int64)

    def optimizer(self, elements: int, partitions: int) -> int:
        """Return the bytes of master weights and optimizer state for `elements`."""
        kept = elements * _MASTER_SIZE + flat_bytes(self.algorithm, self.momentum, elements)
        return kept + partitions * _STEP_BYTES * self.steps


def zero_state(
    parameters: Sequence[TensorInfo],
    spec: StrategySpec,
    ranks: Sequence[int] | Bytes | None = None,
    options: ZeroOptions | None = None,
) -> ZeroState:
    """Return the state of the given ranks under `spec`, whose kind is zero1, zero2 or zero3.

    Args:
        parameters: parameters in the order of `model.parameters()`, shared ones once.
        spec: strategy; `offload` is DeepSpeed's `offload_optimizer` to the CPU.
        ranks: None: all ranks.
        options: None: DeepSpeed's defaults.

    Raises:
        ValueError: another strategy, a rank outside the world, nothing to train, or trainable parameters of
            different types in fp32, which DeepSpeed cannot flatten.
    """
    stage = _STAGES.get(spec.kind)
    if stage is None:
        raise ValueError(f"{spec.kind} is not ZeRO; expected one of {', '.join(_STAGES)}")
    chosen = np.arange(spec.world_size) if ranks is None else np.asarray(ranks, dtype=np.int64)
    if len(chosen) and not 0 <= chosen.min() <= chosen.max() < spec.world_size:
        raise ValueError(f"ranks go from 0 to {spec.world_size - 1}, not {chosen.min()} to {chosen.max()}")
    layout = _Layout(
        item=_item_size(parameters, spec),
        world_size=spec.world_size,
        ranks=chosen,
        algorithm=spec.optimizer,
        momentum=spec.momentum,
        steps=spec.optimizer != "sgd",
        averages=spec.ema,
        accumulation=spec.accumulation,
        options=options or ZeroOptions(),
    )
    groups = _groups(parameters, apart=layout.options.vectors_apart)
    if stage == 3:
        return _sharded_weights(parameters, groups, layout, offload=spec.offload)
    frozen = sum(tensor.numel for tensor in parameters if not tensor.trainable)
    return _replicated_weights(frozen, groups, layout, stage=stage, offload=spec.offload)


def _item_size(parameters: Sequence[TensorInfo], spec: StrategySpec) -> int:
    """Return the bytes per element: the engine casts the whole model to a 16-bit precision, or leaves it as
    it is.
    """
    types = {tensor.dtype for tensor in parameters if tensor.trainable and tensor.numel}
    if not types:
        raise ValueError("the model has no parameter to train")
    if spec.engine_precision != "fp32":
        return PRECISION_SIZES[spec.engine_precision]
    if len(types) > 1:
        raise ValueError(f"ZeRO flattens parameters of one type, and these are {', '.join(sorted(types))}")
    return ITEM_SIZES[types.pop()]


def _groups(parameters: Sequence[TensorInfo], *, apart: bool) -> list[list[int]]:
    """Return the elements of the trainable parameters of each parameter group; empty tensors belong to no
    group.
    """
    trainable = [tensor for tensor in parameters if tensor.trainable and tensor.numel]
    if not apart:
        return [[tensor.numel for tensor in trainable]]
    matrices = [tensor.numel for tensor in trainable if len(tensor.shape) >= 2]
    vectors = [tensor.numel for tensor in trainable if len(tensor.shape) < 2]
    return [group for group in (matrices, vectors) if group]


def _replicated_weights(
    frozen: int, groups: Sequence[Sequence[int]], layout: _Layout, *, stage: int, offload: bool
) -> ZeroState:
    """Return the state of stages 1 and 2: each group is one flat tensor on every rank, optimized in equal
    partitions.

    `deepspeed/runtime/zero/stage_1_and_2.py`: `__init__`, `copy_grads_in_partition`, `get_flat_partition`.
    """
    block = _ALIGNMENT * layout.world_size
    partitions = [-(-sum(group) // block) * _ALIGNMENT for group in groups]
    local, none = sum(partitions), layout.each(0)
    flat = layout.each((local * layout.world_size + frozen) * layout.item)
    optimizer = layout.each(layout.optimizer(local, len(groups)))
    whole = none.copy()
    padding = none.copy()
    for group, partition in zip(groups, partitions, strict=True):
        touched, missing = _partition_contents(group, partition, layout.ranks)
        whole += touched
        padding += missing
    trainable = sum(sum(group) for group in groups)
    # every rank averages the whole model it holds
    averages = layout.each(trainable * _MASTER_SIZE if layout.averages else 0)
    if not offload:
        gradients = (whole + padding) * layout.item
        device = ZeroShare(flat, gradients, optimizer + averages, none)
        update = layout.each(local * _MASTER_SIZE)
        return ZeroState(device, ZeroShare(none, none, none, none), gradients, update)
    through = layout.each(max(max(group) for group in groups) * layout.item)
    # stage 2 keeps a copy of the gradients accumulated so far; stage 1 reduces only at the last microbatch
    kept = whole * layout.item if stage == 2 and layout.accumulation > 1 else none
    host = ZeroShare(
        none, layout.each(local * _MASTER_SIZE) + kept, optimizer, layout.each(local * layout.item) + through
    )
    return ZeroState(ZeroShare(flat, none, averages, through), host, none, none)


def _partition_contents(group: Sequence[int], partition: int, ranks: Bytes) -> tuple[Bytes, Bytes]:
    """Return the elements of all parameters that reach into each rank's partition, each whole, and of its
    padding.

    DeepSpeed keeps the whole reduced gradient of a parameter on every rank that owns a piece of it.
    """
    ends = np.cumsum(np.asarray(group, dtype=np.int64))
    before = np.concatenate(([0], ends))
    start = ranks * partition
    first = np.searchsorted(ends, start, side="right")
    last = np.searchsorted(before[:-1], start + partition, side="left")
    touched = before[np.maximum(last, first)] - before[first]
    return touched, np.clip(start + partition - before[-1], 0, partition)


def _sharded_weights(
    parameters: Sequence[TensorInfo], groups: Sequence[Sequence[int]], layout: _Layout, *, offload: bool
) -> ZeroState:
    """Return the state of stage 3: every parameter is split into one equal piece per rank, the last one
    padded.

    `stage3.py`: `_create_fp32_partitions`, `_setup_for_real_optimizer`; `partition_parameters.py`:
    `_aligned_size`; `parameter_offload.py`: `mark_persistent_parameters`. All ranks are equal.
    """
    world, options = layout.world_size, layout.options
    pieces = sum(-(-tensor.numel // world) for tensor in parameters)
    gathered = sum(
        -(-tensor.numel // world) * world for tensor in parameters if tensor.numel <= options.persistence
    )
    local = sum(-(-size // world) for group in groups for size in group)
    partitions = sum(
        _sub_groups([-(-size // world) for size in group], options.sub_group) for group in groups
    )
    none = layout.each(0)
    weights = layout.each((pieces + gathered) * layout.item)
    accumulated = layout.each(local * layout.item)
    optimizer = layout.each(layout.optimizer(local, partitions))
    bucket = layout.each(options.reduce_bucket * layout.item)
    if not offload:
        device = ZeroShare(weights, accumulated, optimizer, bucket)
        update = layout.each(local * _MASTER_SIZE)
        return ZeroState(device, ZeroShare(none, none, none, none), none, update)
    host = ZeroShare(none, accumulated + layout.each(local * _MASTER_SIZE), optimizer, none)
    return ZeroState(ZeroShare(weights, none, none, bucket), host, none, none)


def _sub_groups(pieces: Sequence[int], limit: int) -> int:
    """Return the number of flat partitions of one parameter group (`_create_fp16_sub_groups`): each is closed
    once it reaches `limit`.
    """
    ends = np.cumsum(np.asarray(pieces, dtype=np.int64))
    starts = [0]
    while starts[-1] < ends[-1]:
        reached = int(np.searchsorted(ends, starts[-1] + limit, side="left"))
        starts.append(int(ends[min(reached, len(ends) - 1)]))
    return sum(1 for start, end in pairwise(starts) if end > start)
