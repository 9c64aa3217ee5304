"""The part of a tensor that lies on this rank."""

from __future__ import annotations

from torch import Tensor
from torch.distributed.tensor import DTensor


def local_part(tensor: Tensor) -> Tensor:
    """This rank's shard of a sharded tensor, a tensor itself otherwise; it shares memory with `tensor`."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
