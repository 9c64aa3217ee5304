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
"""Statistics reported for a tensor; `max` is of absolute values, `nonfinite` the share that is NaN or
infinite.
"""


def tensor_statistics(
    strategy: DistributedStrategy, model: nn.Module, gradient_scale: float
) -> dict[str, float]:
    """Return the `STATISTICS` of every gradient and weight.

    `grad_norm/NAME` and so on for each parameter that has a gradient, and `weight_norm/NAME` and so on for
    each parameter. They cover what the strategy's `parameters_here` yields.

    Every rank calls it, between backward and the optimizer's step. It costs two small reductions if weights
    are sharded, none if every rank has all.

    Args:
        strategy: determines how tensors are divided.
        model: model to measure.
        gradient_scale: factor that turns the gradients into those of the mean loss.

    Returns:
        The same on every rank. If elements are not finite, only their share is meaningful.
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
        # rounding may put a variance of zero just below 0; NaN stays NaN
        std = math.sqrt(0.0 if variance < 0 else variance)
        found = (factor * math.sqrt(squares), factor * mean, factor * std, factor * largest[number])
        told = zip(STATISTICS, (*found, nonfinite / elements), strict=True)
        values |= {name.format(statistic): value for statistic, value in told}
    return values


def _over_ranks(strategy: DistributedStrategy, tensors: Sequence[Tensor]) -> tuple[list[float], list[float]]:
    """Return [elements, not finite, sum, sum of squares] of one tensor after another, and each one's largest
    absolute value.

    They cover the whole tensors, or all existing copies of them.
    """
    if not tensors:
        return [], []
    sums = torch.cat([_sums(tensor) for tensor in tensors]).tolist()
    largest = torch.stack([_largest(tensor) for tensor in tensors]).tolist()
    if strategy.parameter_parts == 1:
        return sums, largest
    # copies are counted with their elements: means and shares are right, sums are too large by the number of
    # copies
    copies = strategy.world_size / strategy.parameter_parts
    total = [number / copies for number in strategy.group.sum(sums)]
    return total, [-number for number in strategy.group.minimum([-number for number in largest])]


def _sums(tensor: Tensor) -> Tensor:
    """Return the sums in float64, shape (4,), without waiting for the device."""
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
