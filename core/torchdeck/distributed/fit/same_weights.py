"""Every rank begins with the same weights: those of rank 0."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

from torchdeck.distributed.process_group import ProcessGroup
from torchdeck.distributed.strategies.same_model import check_same_shapes


def take_weights_of_first_rank(model: nn.Module, group: ProcessGroup) -> None:
    """Give every rank the parameters and buffers that `model` has on rank 0; not wrapped yet.

    A script builds its model before the ranks have met, each with whatever random numbers it drew.

    Args:
        model: of the same make on every rank.
        group: the ranks, which all call this.

    Raises:
        AgreementError: the models have different tensors; says which, on which ranks.
    """
    if group.world_size == 1:
        return
    check_same_shapes(group, model)
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            there = tensor.detach().to(group.device).contiguous()
            dist.broadcast(there, src=0)
            tensor.copy_(there)
