"""Moving average of the weights, which often does better on validation data than the weights themselves."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from torchdeck.distributed.checkpoints.tensors.model_state import (
    Listing,
    bare_name,
    listing_of,
    listing_to_json,
)
from torchdeck.distributed.checkpoints.tensors.training_tensors import AVERAGE_PREFIX, TrainingTensors
from torchdeck.distributed.local_tensors import local_part
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.strategies.base import DistributedStrategy

_KIND = "ema"


class Ema:
    """average ← decay × average + (1 − decay) × weight after each optimizer step; initialized with the
    weights.

    After Polyak & Juditsky, 1992, with the now usual constant decay.

    Averages have the strategy's weight layout, so each rank averages what it holds: fp32, 4 bytes per
    trainable element of this rank.

    Args:
        model: as passed to the strategy; already wrapped, as that may replace parameters.
        strategy: strategy that wraps the model.
        decay: above 0, below 1.

    Raises:
        RecipeError: the strategy keeps the weights where they cannot be averaged.
    """

    def __init__(self, model: nn.Module, strategy: DistributedStrategy, decay: float) -> None:
        self._model = model
        self._strategy = strategy
        self._decay = decay
        self._weights = {
            bare_name(name): weight for name, weight in model.named_parameters() if weight.requires_grad
        }
        divided = strategy.weight_parts > 1
        if divided and not all(isinstance(weight, DTensor) for weight in self._weights.values()):
            raise RecipeError(
                f"under strategy {strategy.name} with these options no rank has the weights to average: "
                "leave out ema, or choose another strategy, such as fsdp"
            )
        self.averages = {
            name: weight.detach().clone().to(torch.promote_types(weight.dtype, torch.float32))
            for name, weight in self._weights.items()
        }
        """By the weights' names in a checkpoint."""

    @torch.no_grad()
    def update(self) -> None:
        """Update the average with the weights after a step."""
        averages = [local_part(average) for average in self.averages.values()]
        weights = [
            local_part(weight.detach()).to(average.dtype)  # no copy if it is fp32
            for weight, average in zip(self._weights.values(), averages, strict=True)
        ]
        torch._foreach_lerp_(averages, weights, 1.0 - self._decay)

    @torch.no_grad()
    def restart(self) -> None:
        """Start again from the current weights."""
        for name, weight in self._weights.items():
            local_part(self.averages[name]).copy_(local_part(weight.detach()))

    @contextmanager
    def in_place_of_weights(self) -> Iterator[None]:
        """Run the model with the averages; afterwards its weights are restored bit for bit."""
        kept = [local_part(weight.detach()).clone() for weight in self._weights.values()]
        try:
            self._set([local_part(average) for average in self.averages.values()])
            yield
        finally:
            self._set(kept)

    @torch.no_grad()
    def _set(self, values: Sequence[Tensor]) -> None:
        for weight, value in zip(self._weights.values(), values, strict=True):
            local_part(weight.detach()).copy_(value)
        self._strategy.weights_changed(self._model)


class EmaTensors:
    """Checkpoint view of a training with or without a moving average: `ema.NAME` next to the others.

    A checkpoint without averages initializes them from its weights. Averages in a checkpoint are skipped if
    this training has none.

    Args:
        inner: weights and optimizer state.
        ema: None: there is no average.
        leads: report when an average starts again.
    """

    def __init__(self, inner: TrainingTensors, ema: Ema | None, *, leads: bool) -> None:
        self._inner = inner
        self._ema = ema
        self._leads = leads

    def listing(self) -> Listing:
        return self._inner.listing()

    def model(self) -> dict[str, Tensor]:
        return self._inner.model()

    def optimizer(self) -> dict[str, Tensor]:
        return self._inner.optimizer() | self._averages()

    def alike(self) -> tuple[Collection[str], Collection[str]]:
        model, optimizer = self._inner.alike()
        return model, {*optimizer, *self._averages()}

    def describe_optimizers(self) -> list[dict[str, Any]]:
        described = self._inner.describe_optimizers()
        if self._ema is not None:
            tensors = listing_to_json(listing_of(self._ema.averages))
            described.append({"kind": _KIND, "groups": [], "state": {}, "tensors": tensors})
        return described

    def check_same_optimizers(self, saved: Sequence[Mapping[str, Any]]) -> None:
        self._inner.check_same_optimizers(_without_averages(saved))

    def model_places(self) -> dict[str, Tensor]:
        return self._inner.model_places()

    def optimizer_places(self, saved: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        optimizers = _without_averages(saved)
        places = self._inner.optimizer_places(optimizers)
        return places | self._averages() if len(optimizers) < len(saved) else places

    def restore(
        self, model: dict[str, Tensor], optimizer: dict[str, Tensor], saved: Sequence[Mapping[str, Any]]
    ) -> None:
        optimizers = _without_averages(saved)
        states = {key: tensor for key, tensor in optimizer.items() if not key.startswith(AVERAGE_PREFIX)}
        self._inner.restore(model, states, optimizers)
        if self._ema is not None and len(optimizers) == len(saved):
            self._ema.restart()
            if self._leads:
                logging.getLogger("torchdeck").warning(
                    "the checkpoint has no moving average of the weights: it starts from the weights there"
                )

    def buffers(self) -> dict[str, Tensor]:
        return self._inner.buffers()

    def restore_buffers(self, saved: Mapping[str, Tensor]) -> None:
        self._inner.restore_buffers(saved)

    def _averages(self) -> dict[str, Tensor]:
        averages = {} if self._ema is None else self._ema.averages
        return {AVERAGE_PREFIX + name: average for name, average in averages.items()}


def _without_averages(saved: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [item for item in saved if item["kind"] != _KIND]
