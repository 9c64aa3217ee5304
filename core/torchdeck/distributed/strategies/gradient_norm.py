"""Gradient norm computed in parts, and clipping."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

_NORM_FLOOR = 1e-6


def square_of_norm(gradients: list[Tensor]) -> float:
    """Return the squared norm of `gradients` taken as one vector."""
    if len({(gradient.device, gradient.dtype) for gradient in gradients}) == 1:
        # same result as get_total_norm, without its sorting by device and dtype
        norms = torch._foreach_norm(gradients)  # noqa: SLF001 - as torch's own does; has no public name
        return float(torch.linalg.vector_norm(torch.stack(norms))) ** 2
    return float(get_total_norm(gradients)) ** 2


def factor_within(norm: float, limit: float) -> float:
    """Return the factor that clips a gradient of `norm` to `limit`, as torch's clip_grad_norm_ does."""
    return min(1.0, limit / (norm + _NORM_FLOOR))
