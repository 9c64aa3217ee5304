"""What a recipe's loss function returned, checked, and the mean over everything that counts."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from torchdeck.distributed.process_group import ProcessGroup
from torchdeck.recipes.errors import RecipeError


def checked_loss(returned: Any, samples: int) -> tuple[Tensor, float]:
    """The loss and what it weighs: the number of tokens it is a mean over, or of samples where it does not
    say.

    Args:
        returned: what the recipe's loss gave.
        samples: of this microbatch that count; 0 makes the weight 0.

    Raises:
        RecipeError: it is not a scalar tensor, or a pair of one and a number from 0.
    """
    loss, weight = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, samples)
    if not isinstance(loss, Tensor):
        raise RecipeError(
            f"loss(model, batch) returned {type(loss).__name__}: return a scalar tensor, or (scalar "
            "tensor, tokens)"
        )
    if loss.numel() != 1 or not loss.is_floating_point():
        raise RecipeError(
            f"loss(model, batch) returned a tensor of shape {tuple(loss.shape)} and type {loss.dtype}, not "
            "a scalar: return the mean over the microbatch, such as loss.mean()"
        )
    if torch.is_grad_enabled() and not loss.requires_grad:
        raise RecipeError(
            "the loss does not depend on any trainable parameter: compute it from model(batch), without "
            "detach() or no_grad()"
        )
    weight = float(weight)
    if not (math.isfinite(weight) and weight >= 0):
        raise RecipeError(
            f"loss(model, batch) says it is a mean over {weight} tokens: return a number from 0"
        )
    return loss.reshape(()), weight if samples else 0.0


class WeightedSum:
    """Losses of this rank's microbatches, each by its weight; read from the device once, at the end."""

    def __init__(self) -> None:
        self._parts: list[Tensor] = []
        self.weight = 0.0

    def add(self, loss: Tensor, weight: float) -> None:
        """Count `loss`, the mean over `weight` tokens or samples."""
        if weight:
            self._parts.append(loss.detach().double() * weight)
            self.weight += weight

    def total(self) -> float:
        """Sum of loss × weight."""
        return float(torch.stack(self._parts).sum()) if self._parts else 0.0

    def with_numbers(self, *numbers: float, device: torch.device) -> Tensor:
        """[sum of loss × weight, sum of weights, *numbers] in float64, without waiting for the device."""
        zero = torch.zeros((), dtype=torch.float64, device=device)
        total = torch.stack([zero, *self._parts]).sum().reshape(1)
        rest = torch.tensor([self.weight, *numbers], dtype=torch.float64, device=device)
        return torch.cat([total, rest])


def global_mean(total: float, weight: float, *, what: str) -> float:
    """`total` / `weight`, both already added up over all ranks.

    Raises:
        RecipeError: nothing was counted.
    """
    if weight == 0:
        raise RecipeError(
            f"the {what} loss is a mean over 0 tokens on all ranks: every target was masked out"
        )
    return total / weight


def raise_for_bad_loss(group: ProcessGroup, local: float, *, what: str) -> None:
    """Every rank calls it when the loss over all ranks is not finite; names the first rank that brought it
    in.

    Args:
        group: the ranks.
        local: this rank's own sum.
        what: "loss in step 12".

    Raises:
        RecipeError: always; on the rank at fault first, so that it is the first to end.
    """
    mine = group.rank if not math.isfinite(local) else group.world_size
    first = int(group.minimum([mine])[0])
    value = "nan" if math.isnan(local) else repr(local)
    if first == group.rank:
        raise RecipeError(
            f"the {what} is {value} on rank {first}: lower training.lr, set training.clip, or look at the "
            "data"
        )
    with suppress(RuntimeError):
        group.sum([0.0])  # never answered by the rank at fault: ends when that rank's connection does
    raise RecipeError(f"the {what} is not finite on rank {first}")
