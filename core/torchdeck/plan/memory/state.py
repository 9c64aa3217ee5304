"""What a rank keeps between steps: parameters, gradients, optimizer state; exact to the byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from torchdeck.contract.plan.model_profile import ITEM_SIZES, ModelProfile, TensorInfo
from torchdeck.plan.memory.sharding import Bytes, local_bytes, padded_elements
from torchdeck.plan.memory.spec import FULLY_SHARDED, StrategySpec

_STEP_BYTES = 4
"""Adam's `step`, a float32 scalar for each parameter (torch.optim.adam, `_init_group`)."""


@dataclass(frozen=True)
class StateBytes:
    """Bytes that stay, one element a rank asked for, shape (n,) each."""

    parameters: Bytes
    gradients: Bytes
    """From backward to the end of the step; 0 in between."""
    optimizer: Bytes
    """And the moving average of the weights, where there is one."""
    buffers: Bytes
    """Of the model; every rank has all of them."""


def sharded_state(
    profile: ModelProfile, spec: StrategySpec, indices: Sequence[int] | Bytes | None = None
) -> StateBytes:
    """State of the ranks at `indices` in their shard group; all of a group when None.

    A rank's shard index is its rank modulo `spec.shard`. For single, ddp, fsdp and hsdp.

    Raises:
        ValueError: an index is outside the group, or the strategy is another.
    """
    if spec.kind not in ("single", "ddp", *FULLY_SHARDED):
        raise ValueError(
            f"the state of {spec.kind} is not computed here; see torchdeck.plan.memory.zero.state"
        )
    chosen = np.arange(spec.shard) if indices is None else np.asarray(indices, dtype=np.int64)
    if len(chosen) and not 0 <= chosen.min() <= chosen.max() < spec.shard:
        raise ValueError(f"shard indices go from 0 to {spec.shard - 1}, not {chosen.min()} to {chosen.max()}")
    ones = np.ones(len(chosen), dtype=np.int64)
    trainable = [tensor for tensor in profile.parameters if tensor.trainable]
    return StateBytes(
        parameters=_stored(profile.parameters, spec) * ones,
        # FSDP2 reduces a unit's gradients into one buffer with the padding of each in it
        gradients=_stored(trainable, spec) * ones,
        optimizer=_optimizer(trainable, spec, chosen),
        buffers=sum(tensor.size for tensor in profile.buffers) * ones,
    )


def _stored(tensors: Sequence[TensorInfo], spec: StrategySpec) -> int:
    return sum(padded_elements(tensor, spec.shard) * ITEM_SIZES[tensor.dtype] for tensor in tensors)


def moments(spec: StrategySpec) -> int:
    """Tensors of a parameter's size that the optimizer keeps for each."""
    if spec.optimizer == "sgd":
        return 1 if spec.momentum else 0
    return 2


def _optimizer(trainable: Sequence[TensorInfo], spec: StrategySpec, chosen: Bytes) -> Bytes:
    """Each is made like the local tensor, which a narrowed view of the padded one is: without padding."""
    steps = 0 if spec.optimizer == "sgd" else _STEP_BYTES * len(trainable)
    copies = moments(spec) + (1 if spec.ema else 0)
    return copies * local_bytes(trainable, spec.shard, chosen) + steps
