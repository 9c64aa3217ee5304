"""Rows of each tensor that a rank holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from torchdeck.contract.plan.model_profile import ITEM_SIZES, ModelProfile, TensorInfo
from torchdeck.plan.memory.spec import FULLY_SHARDED, StrategySpec

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TensorRows:
    """A rank's share of one parameter."""

    name: str
    shape: tuple[int, ...]
    """Shape of the whole tensor."""
    dtype: str
    first_row: int
    rows: int
    """0 if the rank holds none of it."""
    size: int
    """Bytes of those rows, without the padding that FSDP stores next to them."""


@dataclass(frozen=True, eq=False)
class HeldRows:
    """A rank's share of every tensor, in their order; shape (n,) each."""

    first_row: Ints
    rows: Ints
    sizes: Ints
    """Bytes."""


@dataclass(frozen=True, eq=False)
class TensorTable:
    """Parameters in columns, for models with a hundred thousand of them."""

    tensors: tuple[TensorInfo, ...]

    @cached_property
    def lengths(self) -> Ints:
        """Rows of each tensor: its first dimension, 1 for a scalar; shape (n,)."""
        return np.array([tensor.shape[0] if tensor.shape else 1 for tensor in self.tensors], dtype=np.int64)

    @cached_property
    def elements(self) -> Ints:
        """Elements of each tensor, shape (n,)."""
        return np.array([tensor.numel for tensor in self.tensors], dtype=np.int64)

    @cached_property
    def sizes(self) -> Ints:
        """Bytes of each tensor, shape (n,)."""
        items = np.array([ITEM_SIZES[tensor.dtype] for tensor in self.tensors], dtype=np.int64)
        return self.elements * items

    @cached_property
    def row_sizes(self) -> Ints:
        """Bytes per row of each tensor, 0 if it has no rows; shape (n,)."""
        return self.sizes // np.maximum(self.lengths, 1)

    def held(self, spec: StrategySpec, rank: int) -> HeldRows | None:
        """Return what `rank` holds; None for ZeRO, which splits tensors without regard to rows.

        Rows are split as `torch.chunk` splits dim 0: ceil(rows ÷ ranks) per rank until none are left.
        """
        if spec.kind.startswith("zero"):
            return None
        ranks = spec.shard if spec.kind in FULLY_SHARDED else 1
        chunk = -(-self.lengths // ranks)
        first = np.minimum(chunk * (rank % ranks), self.lengths)
        rows = np.minimum(chunk, self.lengths - first)
        return HeldRows(first, rows, rows * self.row_sizes)


def tensors_of(profile: ModelProfile, spec: StrategySpec, rank: int) -> tuple[TensorRows, ...]:
    """Return what `rank` holds of every parameter; empty for ZeRO, see `TensorTable.held`."""
    held = TensorTable(profile.parameters).held(spec, rank)
    if held is None:
        return ()
    parts = zip(
        profile.parameters, held.first_row.tolist(), held.rows.tolist(), held.sizes.tolist(), strict=True
    )
    return tuple(TensorRows(tensor.name, tensor.shape, tensor.dtype, *part) for tensor, *part in parts)
