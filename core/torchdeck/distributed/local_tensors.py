"""The local part of a tensor on this rank."""

from __future__ import annotations

from torch import Tensor
from torch.distributed.tensor import DTensor


def local_part(tensor: Tensor) -> Tensor:
    """Return this rank's shard of a sharded tensor, otherwise the tensor itself; it shares memory with
    `tensor`.
    """
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
