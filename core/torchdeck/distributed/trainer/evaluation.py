"""Loss and metrics on validation data, the same at any world size."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext

import torch

from torchdeck.distributed.batches import Collate, SizedDataset, evaluation_batches, samples_of
from torchdeck.distributed.checkpoints.files.rank_file import restore_rng, rng_state
from torchdeck.distributed.trainer.loss_checks import (
    WeightedSum,
    checked_loss,
    global_mean,
    raise_for_bad_loss,
)
from torchdeck.distributed.trainer.step import TrainingParts


class Evaluation:
    """Means over a fixed part of the validation data.

    Every rank runs the same number of forward passes, as a strategy may need all ranks for each. Filler
    batches have weight 0.

    Args:
        parts: the model and its loss.
        data: validation data set, not empty.
        collate: function from samples to a batch.
        microbatch: samples of one forward pass.
        limit: microbatches of one evaluation, on all ranks together.
    """

    def __init__(
        self, parts: TrainingParts, data: SizedDataset, collate: Collate, *, microbatch: int, limit: int
    ) -> None:
        self._parts = parts
        self._data = data
        self._collate = collate
        strategy = parts.strategy
        self._batches = evaluation_batches(
            len(data), microbatch, limit, rank=strategy.rank, world_size=strategy.world_size
        )
        self._metric_names: tuple[str, ...] | None = None

    def run(self, on_batch: Callable[[int], None]) -> Mapping[str, float]:
        """Return the mean loss as `validation_loss`, and each metric as `validation_` and its name.

        Uses the moving average of the weights, if there is one. Weights, gradients and random generators are
        left unchanged.

        Args:
            on_batch: called before each forward pass with its number of samples.

        Raises:
            RecipeError: the loss is not finite, or not a loss.
            AgreementError: ranks return different metrics.
        """
        parts, losses = self._parts, WeightedSum(self._metric_names)
        training, drawn = parts.wrapped.training, rng_state()
        parts.wrapped.eval()
        try:
            with torch.no_grad(), parts.ema.in_place_of_weights() if parts.ema else nullcontext():
                for ids in self._batches:
                    on_batch(len(ids))
                    samples = samples_of(self._data, ids or [0])
                    batch = parts.strategy.to_device(self._collate(samples))
                    with parts.strategy.autocast():
                        returned = parts.loss(parts.wrapped, batch)
                    losses.add(checked_loss(returned, len(ids)))
        finally:
            parts.wrapped.train(training)
            restore_rng(drawn)  # a loss function may draw, e.g. noise
        return self._means(losses)

    def _means(self, losses: WeightedSum) -> dict[str, float]:
        strategy = self._parts.strategy
        if self._metric_names is None:
            losses.check_names(strategy.group)
            self._metric_names = losses.names
        *totals, weight = strategy.group.start_sum(losses.with_numbers(device=strategy.device)).wait()
        if not math.isfinite(totals[0]):
            raise_for_bad_loss(strategy.group, losses, self._batches, what="validation loss")
        names = ("loss", *losses.names)
        return {
            f"validation_{name}": global_mean(total, weight, what="validation")
            for name, total in zip(names, totals, strict=True)
        }
