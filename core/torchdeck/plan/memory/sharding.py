"""FSDP2's layout of a tensor over ranks: chunks of rows, each stored at the size of the first.

`fully_shard` splits dim 0 with `torch.chunk`: each rank gets ceil(rows / ranks) rows until none are left, so
later ranks may get fewer or none. Every rank allocates the first chunk's size (torch 2.13,
`fsdp/_fully_shard/_fsdp_param.py`, `_init_sharded_param`: `padded_sharded_size = chunks[0].size()`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from torchdeck.contract.plan.model_profile import ITEM_SIZES, TensorInfo

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
