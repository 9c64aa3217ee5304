"""Checks of the result of a recipe's loss function, and weighted means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from torchdeck.data.order import Ids
from torchdeck.distributed.checkpoints.tensors.model_state import bare_name
from torchdeck.distributed.group.agreement import Group, require_same
from torchdeck.distributed.group.process_group import ProcessGroup
from torchdeck.distributed.local_tensors import local_part
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.trainer.statistics import STATISTICS

OWN_METRICS = frozenset(
    {"loss", "lr", "grad_norm", "tokens", "samples", "tokens_per_s", "samples_per_s", "step_time"}
    | {"memory_bytes", "memory_peak_bytes", "memory_growth_peak_bytes"}
    | {"save_stall", "save_seconds", "save_interval"}
)
"""Metrics that the trainer writes itself, besides those of validation data and of single tensors."""
_OWN_PREFIXES = ("validation_", *(f"{kind}_{what}/" for kind in ("grad", "weight") for what in STATISTICS))
_LONGEST_NAME = 100


@dataclass(frozen=True)
class MicrobatchLoss:
    """Loss of one microbatch."""

    loss: Tensor
    """Mean over the microbatch; shape ()."""
    weight: float
    """Number of tokens or samples averaged over; 0 if nothing counts."""
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    """Further means over the same tokens or samples; float64 on the loss's device, shape ()."""


def checked_loss(returned: Any, samples: int) -> MicrobatchLoss:
    """Return the loss and its weight: the number of tokens averaged over, or of samples if not given.

    Args:
        returned: return value of the recipe's loss: mean, (mean, tokens) or (mean, tokens, {name: mean}).
        samples: samples of this microbatch that count; 0 makes the weight 0.

    Raises:
        RecipeError: it is none of these, with a scalar tensor, a number of at least 0 and numeric metrics.
    """
    loss, weight, metrics = _parts(returned, samples)
    if not isinstance(loss, Tensor):
        raise RecipeError(
            f"loss(model, batch) returned {type(loss).__name__}: return a scalar tensor, or (scalar "
            "tensor, tokens), or (scalar tensor, tokens, metrics)"
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
    return MicrobatchLoss(
        loss.reshape(()) if loss.dim() else loss,
        weight if samples else 0.0,
        _checked_metrics(metrics, loss.device),
    )


def _parts(returned: Any, samples: int) -> tuple[Any, Any, Any]:
    if isinstance(returned, tuple) and len(returned) == 3:
        return returned
    return (*returned, {}) if isinstance(returned, tuple) and len(returned) == 2 else (returned, samples, {})


def _checked_metrics(metrics: Any, device: torch.device) -> dict[str, Tensor]:
    if not isinstance(metrics, Mapping):
        raise RecipeError(
            f"loss(model, batch) returned {type(metrics).__name__} as its metrics: return a dict of names "
            'and means, such as {"accuracy": correct.float().mean()}'
        )
    return {_checked_name(name): _checked_metric(name, value, device) for name, value in metrics.items()}


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or any(map(str.isspace, name)):
        raise RecipeError(
            f"loss(model, batch) returned a metric named {name!r}: a name is a text of 1 to "
            f"{_LONGEST_NAME} characters without spaces"
        )
    if name in OWN_METRICS or name.startswith(_OWN_PREFIXES):
        raise RecipeError(
            f'loss(model, batch) returned a metric named "{name}", which the trainer writes itself: choose '
            "another name"
        )
    return name


def _checked_metric(name: str, value: Any, device: torch.device) -> Tensor:
    if isinstance(value, Tensor):
        if value.numel() == 1 and not value.is_complex():
            return value.detach().to(device, torch.float64).reshape(())
        what = f"a tensor of shape {tuple(value.shape)} and type {value.dtype}"
    elif isinstance(value, Real):  # numpy's, too
        return torch.tensor(float(value), dtype=torch.float64, device=device)
    else:
        what = type(value).__name__
    raise RecipeError(
        f'the metric "{name}" that loss(model, batch) returned is {what}: return a number or a scalar '
        "tensor, the mean over the microbatch"
    )


class WeightedSum:
    """Weighted losses and metrics of this rank's microbatches; read from a GPU once, at the end.

    Args:
        names: names of the metrics, known to all ranks; None: taken from the first microbatch.

    Attributes:
        weight: sum of the weights added.
    """

    def __init__(self, names: tuple[str, ...] | None = None) -> None:
        self._names = names
        self._parts: list[Tensor | list[float]] = []
        self._numbers: list[int] = []
        self._added = 0
        self.weight = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the metrics, sorted."""
        return self._names or ()

    def add(self, microbatch: MicrobatchLoss) -> None:
        """Add a microbatch.

        Raises:
            RecipeError: its metric names differ from earlier ones.
        """
        names = tuple(sorted(microbatch.metrics))
        if self._names is None:
            self._names = names
        elif names != self._names:
            raise RecipeError(
                f"loss(model, batch) returned the metrics {_listed(names)} for one microbatch and "
                f"{_listed(self._names)} for another: return the same for each"
            )
        if microbatch.weight:
            means = [microbatch.loss.detach(), *map(microbatch.metrics.__getitem__, names)]
            self._parts.append(_weighted(means, microbatch.weight))
            self._numbers.append(self._added)
            self.weight += microbatch.weight
        self._added += 1

    def check_names(self, group: Group) -> None:
        """Check that all ranks have the same metric names; every rank calls it.

        Raises:
            AgreementError: the names differ.
        """
        require_same(
            group,
            {"metrics": list(self.names)},
            what="metrics from loss(model, batch)",
            advice="Return the same for every microbatch",
        )

    def total(self) -> float:
        """Return the sum of loss × weight."""
        return sum((float(part[0]) for part in self._parts), 0.0)

    def first_not_finite(self) -> int | None:
        """Return the index of the first microbatch, from 0, whose loss is not finite."""
        losses = (float(part[0]) for part in self._parts)
        bad = (number for number, loss in zip(self._numbers, losses, strict=True) if not math.isfinite(loss))
        return next(bad, None)

    def with_numbers(self, *numbers: float, device: torch.device) -> Tensor | list[float]:
        """Return [sum of loss × weight, the same of each metric, sum of weights, *numbers] in float64, shape
        (n,).

        Does not wait for the device. Plain numbers if they are on the CPU anyway.
        """
        zeros = [0.0] * (1 + len(self.names))
        rest = [self.weight, *numbers]
        read = [part for part in self._parts if isinstance(part, list)]
        if device.type == "cpu" and len(read) == len(self._parts):
            return [sum(column) for column in zip(zeros, *read, strict=True)] + rest
        parts = [torch.as_tensor(part, dtype=torch.float64, device=device) for part in (zeros, *self._parts)]
        return torch.cat([torch.stack(parts).sum(0), torch.tensor(rest, dtype=torch.float64, device=device)])


def _weighted(means: list[Tensor], weight: float) -> Tensor | list[float]:
    """Return each mean, shape (), times `weight`. On the CPU there is no device to wait for, and a number
    costs a tenth of a tensor.
    """
    if all(type(mean) is Tensor and mean.device.type == "cpu" for mean in means):
        return [mean.item() * weight for mean in means]
    return torch.stack([mean.double() for mean in means]) * weight


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"


def global_mean(total: float, weight: float, *, what: str) -> float:
    """Return `total` / `weight`, both already summed over all ranks.

    Raises:
        RecipeError: nothing was counted.
    """
    if weight == 0:
        raise RecipeError(
            f"the {what} loss is a mean over 0 tokens on all ranks: every target was masked out"
        )
    return total / weight


# Errors that stop a failed training and name the rank at fault.

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
            f"the {what} is {value} on rank {first}{_samples(losses, ids)}: lower the learning rate "
            "(lr), clip the gradient (clip), or look at the data"
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
        f"the gradient's norm in step {step} is {norm}{where}: lower the learning rate (lr), clip "
        "the gradient (clip), or look at the loss function"
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
