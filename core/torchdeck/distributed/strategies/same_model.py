"""Check that all ranks begin with the same model. Runs before torch joins them, which would not report what
differs.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from torchdeck.distributed.group.agreement import Group, require_same
from torchdeck.distributed.group.process_group import ProcessGroup
from torchdeck.distributed.local_tensors import checksum

_ORDER = "order of tensors"
_ADVICE = "Build the same model on every rank, from the same seed"


def check_same_shapes(group: Group, model: nn.Module) -> None:
    """Check that parameters and buffers have the same names, shapes, dtypes and order; every rank must call
    this.

    Raises:
        AgreementError: on every rank, naming the tensor, two ranks and their shapes.
    """
    shapes: dict[str, Any] = {
        name: [list(tensor.shape), str(tensor.dtype)] for name, tensor in _tensors(model).items()
    }
    # gradients are averaged in this order, whatever their names
    require_same(group, shapes | {_ORDER: list(shapes)}, what="models", advice=_ADVICE)


def check_same_trained(group: Group, model: nn.Module) -> None:
    """Check that the same parameters are trained; every rank must call this, after `check_same_shapes`.

    Raises:
        AgreementError: on every rank, naming the parameter and two ranks.
    """
    trained = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    require_same(group, trained, what="parameters to train (requires_grad)", advice=_ADVICE)


def check_same_weights(group: Group, model: nn.Module) -> None:
    """Check that parameters and buffers are the same bit for bit; every rank must call this.

    Raises:
        AgreementError: on every rank, naming the tensor and two ranks.
    """
    hashes = {name: _hash(tensor) for name, tensor in _tensors(model).items()}
    require_same(group, hashes, what="weights", advice=_ADVICE + ", or set broadcast_parameters")


def begin_alike(group: ProcessGroup, model: nn.Module) -> None:
    """Broadcast rank 0's parameters and buffers of `model` to all ranks, if they differ.

    A script may build its model from a different random state on each rank. Shards of different models would
    not form a valid one. If all are equal, this costs one pass over the weights and a small reduction.

    Args:
        group: the ranks, which all call this.
        model: same structure on every rank; not wrapped yet.

    Raises:
        AgreementError: the models have different tensors, or train different ones; names which, and on which
            ranks.
    """
    if group.world_size == 1:
        return
    check_same_shapes(group, model)
    check_same_trained(group, model)  # otherwise ranks wait for gradients that others lack
    tensors = list(_tensors(model).values())
    whole = sum((number + 1) * int(checksum(tensor)) for number, tensor in enumerate(tensors)) % (1 << 64)
    words = [float(whole >> 32), float(whole % (1 << 32))]
    least = group.minimum([*words, *(-word for word in words)])
    if least == [*words, *(-word for word in words)]:
        return
    _broadcast(group, tensors)


def _broadcast(group: ProcessGroup, tensors: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for tensor in tensors:
            there = tensor.detach().to(group.device).contiguous()
            dist.broadcast(there, src=0)
            tensor.copy_(there)


def _tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _hash(tensor: torch.Tensor) -> str:
    """Return the start of the SHA-256 of the tensor's bytes."""
    content = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
    return hashlib.sha256(content.numpy().tobytes()).hexdigest()[:12]
