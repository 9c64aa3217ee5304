"""Compression of DDP's gradients for communication: bytes sent of a tensor, and the memory it takes."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.contract.plan.model_profile import ITEM_SIZES, TensorInfo
from torchdeck.plan.memory.spec import StrategySpec

_BF16 = 2
_LEAST_SAVING = 2
"""torch approximates a matrix if that sends less than this part of it (`min_compression_rate`)."""


def sent_bytes(tensor: TensorInfo, spec: StrategySpec) -> int:
    """Return the bytes of a gradient that an all-reduce receives.

    PowerSGD (Vogels et al., "PowerSGD", 2019, algorithm 1) sends P, n × r, and Q, m × r, of a gradient
    treated as a matrix of n rows. In the first steps, and for vectors and small matrices, it sends the whole
    gradient (torch, `ddp_comm_hooks/powerSGD_hook.py`: `_should_compress`).
    """
    if spec.comm_hook == "bf16":
        return tensor.numel * _BF16
    return _factors(tensor, spec) or tensor.size if spec.comm_hook == "powersgd" else tensor.size


def kept_bytes(gradients: Sequence[TensorInfo], spec: StrategySpec) -> int:
    """Return the bytes kept between steps: PowerSGD's error, as large as all gradients, and its factors."""
    if spec.comm_hook != "powersgd":
        return 0
    return sum(tensor.size + _factors(tensor, spec) for tensor in gradients)


def passing_bytes(gradients: Sequence[TensorInfo], spec: StrategySpec) -> int:
    """Return the maximum temporary bytes while gradients are reduced.

    In bf16 a copy of each bucket: on GPUs of one at a time, while gloo may lag behind with all of them.
    PowerSGD reduces one after the other, with two copies of the bucket.
    """
    whole = sum(tensor.size for tensor in gradients)
    largest = max((tensor.size for tensor in gradients), default=0)
    bucket = min(whole, max(largest, int(spec.bucket_mb * 2**20)))
    if spec.comm_hook == "bf16":
        return (whole if spec.device == "cpu" else bucket) * _BF16 // ITEM_SIZES["float32"]
    return 2 * bucket if spec.comm_hook == "powersgd" else 0


def _factors(tensor: TensorInfo, spec: StrategySpec) -> int:
    """Return the bytes of P and Q; 0 if the tensor is sent whole."""
    rows = tensor.shape[0] if tensor.shape else 1
    columns = tensor.numel // max(rows, 1)
    numbers = (rows + columns) * min(rows, columns, spec.powersgd_rank)
    return numbers * ITEM_SIZES[tensor.dtype] if numbers * _LEAST_SAVING < tensor.numel else 0
