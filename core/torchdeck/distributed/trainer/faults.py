"""Errors that stop a failed training and name the rank at fault."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import nn

from torchdeck.data.order import Ids
from torchdeck.distributed.checkpoints.tensors.model_state import bare_name
from torchdeck.distributed.group.process_group import ProcessGroup
from torchdeck.distributed.local_tensors import local_part
from torchdeck.distributed.recipe import RecipeError
from torchdeck.distributed.trainer.losses import WeightedSum

_SHOWN_IDS = 8


def raise_for_bad_loss(
    group: ProcessGroup, losses: WeightedSum, ids: Sequence[Ids | Sequence[int]], *, what: str
) -> None:
    """Raise an error for a loss over all ranks that is not finite, naming the first rank that caused it;
    every rank calls it.

    Args:
        group: the ranks.
        losses: this rank's.
        ids: samples of each microbatch in `losses`.
        what: "loss in step 12".

    Raises:
        RecipeError: always; on the rank at fault first, so that it is the first to end.
    """
    local = losses.total()
    mine = group.rank if not math.isfinite(local) else group.world_size
    first = int(group.minimum([mine])[0])
    value = "nan" if math.isnan(local) else repr(local)
    if first == group.rank:
        raise RecipeError(
            f"the {what} is {value} on rank {first}{_samples(losses, ids)}: lower training.lr, set "
            "training.clip, or look at the data"
        )
    with suppress(RuntimeError):
        group.sum([0.0])  # the rank at fault never joins: ends when its connection does
    raise RecipeError(f"the {what} is not finite on rank {first}")


def raise_for_bad_gradient(group: ProcessGroup, model: nn.Module, norm: float, step: int) -> None:
    """Raise an error for a gradient norm that is not finite, naming the first parameter at fault; every rank
    calls it.

    Raises:
        RecipeError: always; the same on every rank.
    """
    parameters = list(model.named_parameters())
    bad = (
        number
        for number, (_, parameter) in enumerate(parameters)
        if parameter.grad is not None and not bool(torch.isfinite(local_part(parameter.grad)).all())
    )
    first = int(group.minimum([next(bad, len(parameters))])[0])
    where = f", first in the gradient of {bare_name(parameters[first][0])}" if first < len(parameters) else ""
    raise RecipeError(
        f"the gradient's norm in step {step} is {norm}{where}: lower training.lr, set training.clip, or "
        "look at the loss function"
    )


def _samples(losses: WeightedSum, ids: Sequence[Ids | Sequence[int]]) -> str:
    """Return the samples of the first microbatch at fault, as a clause."""
    number = losses.first_not_finite()
    if number is None or number >= len(ids):
        return ""
    samples = [int(sample) for sample in ids[number]]
    more = len(samples) - _SHOWN_IDS
    listed = ", ".join(map(str, samples[:_SHOWN_IDS])) + (f" and {more} more" if more > 0 else "")
    return f", in the microbatch of samples {listed}"
