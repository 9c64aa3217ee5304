"""FSDP2's layout of a tensor over ranks: chunks of rows, each stored at the size of the first.

`fully_shard` splits dim 0 with `torch.chunk`: each rank gets ceil(rows / ranks) rows until none are left, so
later ranks may get fewer or none. Every rank allocates the first chunk's size (torch 2.13,
`fsdp/_fully_shard/_fsdp_param.py`, `_init_sharded_param`: `padded_sharded_size = chunks[0].size()`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from torchdeck.contract.plan.model_profile import ITEM_SIZES, ModelProfile, TensorInfo
from torchdeck.plan.memory.spec import StrategySpec

Bytes = npt.NDArray[np.int64]


def rows(tensor: TensorInfo) -> int:
    """Return the size of dim 0; a scalar counts as one row."""
    return tensor.shape[0] if tensor.shape else 1


def row_elements(tensor: TensorInfo) -> int:
    """Return the number of elements per row."""
    count = 1
    for size in tensor.shape[1:]:
        count *= size
    return count


def padded_rows(tensor: TensorInfo, ranks: int) -> int:
    """Return the number of rows that each rank stores, including padding."""
    return -(-rows(tensor) // ranks)


def padded_elements(tensor: TensorInfo, ranks: int) -> int:
    """Return the number of elements that each rank stores, including padding."""
    return padded_rows(tensor, ranks) * row_elements(tensor)


def local_rows(length: int, ranks: int, indices: Bytes) -> Bytes:
    """Return the unpadded rows of a tensor of `length` rows on each of the ranks at `indices`."""
    chunk = -(-length // ranks)
    return np.clip(length - chunk * indices, 0, chunk)


def local_bytes(tensors: Sequence[TensorInfo], ranks: int, indices: Bytes) -> Bytes:
    """Return the bytes of all `tensors` on each of the ranks at `indices`, without padding, shape (n,).

    Tensors with the same number of rows are split alike, so a model with thousands of tensors needs only a
    few sums.
    """
    row_bytes: dict[int, int] = {}
    for tensor in tensors:
        row_bytes.setdefault(rows(tensor), 0)
        row_bytes[rows(tensor)] += row_elements(tensor) * ITEM_SIZES[tensor.dtype]
    total = np.zeros(len(indices), dtype=np.int64)
    for length, width in row_bytes.items():
        total += width * local_rows(length, ranks, indices)
    return total


# Bytes of each FSDP unit at each stage of a step.

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
