"""State a rank keeps between steps: parameters, gradients, optimizer state; exact to the byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from torchdeck.contract.plan.model_profile import ITEM_SIZES, ModelProfile, TensorInfo
from torchdeck.plan.memory.optimizers import OTHERS, moments, state_bytes
from torchdeck.plan.memory.sharding import Bytes, local_bytes, local_rows, padded_elements, rows
from torchdeck.plan.memory.spec import FULLY_SHARDED, StrategySpec

_STEP_BYTES = 4
"""Adam's `step`, a float32 scalar per parameter (torch.optim.adam, `_init_group`)."""


@dataclass(frozen=True)
class StateBytes:
    """Bytes of persistent state, one element per requested rank, shape (n,) each."""

    parameters: Bytes
    gradients: Bytes
    """Held from backward to the end of the step; 0 in between."""
    optimizer: Bytes
    """Optimizer state, and the moving average of the weights if there is one."""
    buffers: Bytes
    """The model's buffers; every rank has all of them."""


def sharded_state(
    profile: ModelProfile, spec: StrategySpec, indices: Sequence[int] | Bytes | None = None
) -> StateBytes:
    """Return the state of the ranks at `indices` in their shard group; None: all ranks of a group.

    A rank's shard index is its rank modulo `spec.shard`. For single, ddp, fsdp and hsdp.

    Raises:
        ValueError: an index is outside the group, or the strategy is another one.
    """
    if spec.kind not in ("single", "ddp", *FULLY_SHARDED):
        raise ValueError(
            f"the state of {spec.kind} is not computed here; see torchdeck.plan.memory.zero_state"
        )
    chosen = np.arange(spec.shard) if indices is None else np.asarray(indices, dtype=np.int64)
    if len(chosen) and not 0 <= chosen.min() <= chosen.max() < spec.shard:
        raise ValueError(f"shard indices go from 0 to {spec.shard - 1}, not {chosen.min()} to {chosen.max()}")
    ones = np.ones(len(chosen), dtype=np.int64)
    trainable = [tensor for tensor in profile.parameters if tensor.trainable]
    return StateBytes(
        parameters=_stored(profile.parameters, spec) * ones,
        # FSDP2 reduces a unit's gradients into one buffer, including the padding of each
        gradients=_stored(trainable, spec) * ones,
        optimizer=_optimizer(trainable, spec, chosen),
        buffers=sum(tensor.size for tensor in profile.buffers) * ones,
    )


def _stored(tensors: Sequence[TensorInfo], spec: StrategySpec) -> int:
    return sum(padded_elements(tensor, spec.shard) * ITEM_SIZES[tensor.dtype] for tensor in tensors)


def _optimizer(trainable: Sequence[TensorInfo], spec: StrategySpec, chosen: Bytes) -> Bytes:
    """Return the bytes of optimizer state. Each tensor is created like the local tensor, a narrowed view of
    the padded one, so it has no padding.
    """
    if spec.optimizer in OTHERS:
        return _others(trainable, spec, chosen)
    steps = 0 if spec.optimizer == "sgd" else _STEP_BYTES * len(trainable)
    copies = moments(spec.optimizer, spec.momentum) + (1 if spec.ema else 0)
    return copies * local_bytes(trainable, spec.shard, chosen) + steps


def _others(trainable: Sequence[TensorInfo], spec: StrategySpec, chosen: Bytes) -> Bytes:
    """Return the state of an optimizer whose state is not a multiple of its parameters."""
    total = np.zeros(len(chosen), dtype=np.int64)
    for tensor in trainable:
        held = local_rows(rows(tensor), spec.shard, chosen)
        sizes = {
            count: state_bytes(spec.optimizer, tensor.name, (count, *tensor.shape[1:]), tensor.dtype)
            for count in set(held.tolist())
        }
        total += np.array([sizes[count] for count in held.tolist()], dtype=np.int64)
    return total
