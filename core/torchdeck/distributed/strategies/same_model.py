"""Do all ranks begin with the same model? Asked before torch joins them, which would not say what differs."""

from __future__ import annotations

import hashlib

import torch
from torch import nn

from torchdeck.distributed.agreement import Group, check_agreement

_ADVICE = "Build the same model on every rank, from the same seed"


def check_same_shapes(group: Group, model: nn.Module) -> None:
    """Check that parameters and buffers have the same names, shapes and dtypes; every rank must call this.

    Raises:
        AgreementError: on every rank, naming the tensor, two ranks and their shapes.
    """
    shapes = {name: [list(tensor.shape), str(tensor.dtype)] for name, tensor in _tensors(model).items()}
    check_agreement(group, shapes, what="models", advice=_ADVICE)


def check_same_weights(group: Group, model: nn.Module) -> None:
    """Check that parameters and buffers are the same bit for bit; every rank must call this.

    Raises:
        AgreementError: on every rank, naming the tensor and two ranks.
    """
    hashes = {name: _hash(tensor) for name, tensor in _tensors(model).items()}
    check_agreement(
        group, hashes, what="weights", advice=_ADVICE + ", or set distributed.ddp.broadcast_parameters"
    )


def _tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _hash(tensor: torch.Tensor) -> str:
    """Beginning of the SHA-256 of its bytes."""
    content = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
    return hashlib.sha256(content.numpy().tobytes()).hexdigest()[:12]
