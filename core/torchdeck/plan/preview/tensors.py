"""Which rows of which tensor a rank holds."""

from __future__ import annotations

from dataclasses import dataclass

from torchdeck.plan.memory.spec import FULLY_SHARDED, StrategySpec
from torchdeck.plan.model_profile import ITEM_SIZES, ModelProfile, TensorInfo


@dataclass(frozen=True)
class TensorRows:
    """A rank's part of one parameter."""

    name: str
    shape: tuple[int, ...]
    """Of the whole tensor."""
    dtype: str
    first_row: int
    rows: int
    """0 where the rank holds none of it."""
    size: int
    """Bytes of those rows, without the padding that FSDP stores beside them."""


def tensors_of(profile: ModelProfile, spec: StrategySpec, rank: int) -> tuple[TensorRows, ...]:
    """What `rank` holds of every parameter; nothing for ZeRO, which cuts them without regard to rows."""
    if spec.kind.startswith("zero"):
        return ()
    ranks = spec.shard if spec.kind in FULLY_SHARDED else 1
    return tuple(_rows(tensor, ranks, rank % ranks) for tensor in profile.parameters)


def _rows(tensor: TensorInfo, ranks: int, index: int) -> TensorRows:
    """Rows as `torch.chunk` cuts dim 0: ceil(rows ÷ ranks) for each rank until none are left."""
    length = tensor.shape[0] if tensor.shape else 1
    chunk = -(-length // ranks)
    first = min(chunk * index, length)
    rows = min(chunk, length - first)
    row_size = tensor.numel // length * ITEM_SIZES[tensor.dtype] if length else 0
    return TensorRows(tensor.name, tensor.shape, tensor.dtype, first, rows, rows * row_size)
