"""Statistics of every gradient and weight, over the whole tensor however it is sharded."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from torchdeck.distributed.checkpoints.tensors.model_state import bare_name
from torchdeck.distributed.local_tensors import local_part
from torchdeck.distributed.strategies.base import DistributedStrategy

STATISTICS = ("norm", "mean", "std", "max", "nonfinite")
"""What is told of a tensor; `max` is of absolute values, `nonfinite` the share that is NaN or infinite."""


def tensor_statistics(
    strategy: DistributedStrategy, model: nn.Module, gradient_scale: float
) -> dict[str, float]:
    """Those of `STATISTICS`, as `grad_norm/NAME` and so on for each parameter that has a gradient, and
    `weight_norm/NAME` and so on for each parameter: of what the strategy's `parameters_here` gives.

    Every rank calls it, between backward and the optimizer's step; two small reductions where weights are
    sharded, none where every rank has all.

    Args:
        strategy: how tensors are divided.
        model: whose.
        gradient_scale: what the gradients are to be multiplied by to be the mean loss's.

    Returns:
        The same on every rank. Where elements are not finite, only the share of them tells anything.
    """
    names: list[str] = []
    tensors: list[Tensor] = []
    factors: list[float] = []
    with torch.no_grad():
        for name, weight, gradient in strategy.parameters_here(model):
            for kind, tensor, factor in (("grad", gradient, gradient_scale), ("weight", weight, 1.0)):
                if tensor is not None:
                    names.append(f"{kind}_{{}}/{bare_name(name)}")
                    tensors.append(local_part(tensor))
                    factors.append(factor)
        sums, largest = _over_ranks(strategy, tensors)
    values: dict[str, float] = {}
    for number, (name, factor) in enumerate(zip(names, factors, strict=True)):
        elements, nonfinite, total, squares = sums[4 * number : 4 * number + 4]
        if elements == 0:
            continue
        mean = total / elements
        variance = squares / elements - mean * mean
        # rounding may leave a variance of nothing just below 0; NaN stays NaN
        std = math.sqrt(0.0 if variance < 0 else variance)
        found = (factor * math.sqrt(squares), factor * mean, factor * std, factor * largest[number])
        told = zip(STATISTICS, (*found, nonfinite / elements), strict=True)
        values |= {name.format(statistic): value for statistic, value in told}
    return values


def _over_ranks(strategy: DistributedStrategy, tensors: Sequence[Tensor]) -> tuple[list[float], list[float]]:
    """[elements, not finite, sum, sum of squares] of each tensor after another, and the largest absolute
    value of each; of the whole tensors, or of as many copies of them as there are."""
    if not tensors:
        return [], []
    sums = torch.cat([_sums(tensor) for tensor in tensors]).tolist()
    largest = torch.stack([_largest(tensor) for tensor in tensors]).tolist()
    if strategy.parameter_parts == 1:
        return sums, largest
    # copies are counted with their elements: means and shares are right, sums are too large by their number
    copies = strategy.world_size / strategy.parameter_parts
    total = [number / copies for number in strategy.group.sum(sums)]
    return total, [-number for number in strategy.group.minimum([-number for number in largest])]


def _sums(tensor: Tensor) -> Tensor:
    """In float64, shape (4,), without waiting for the device."""
    if tensor.numel() == 0:
        return torch.zeros(4, dtype=torch.float64, device=tensor.device)
    finite = torch.isfinite(tensor)
    count = torch.full((), tensor.numel(), dtype=torch.float64, device=tensor.device)
    squares = torch.linalg.vector_norm(tensor, dtype=torch.float64) ** 2
    return torch.stack([count, count - finite.sum(), tensor.sum(dtype=torch.float64), squares])


def _largest(tensor: Tensor) -> Tensor:
    if tensor.numel() == 0:
        return torch.zeros((), dtype=torch.float64, device=tensor.device)
    largest: Tensor = torch.linalg.vector_norm(tensor, math.inf)
    return largest.double()
