"""Loss on held-out data, the same at any world size."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from torchdeck.distributed.batches import Collate, SizedDataset, evaluation_batches
from torchdeck.distributed.trainer.losses import WeightedSum, checked_loss, global_mean, raise_for_bad_loss
from torchdeck.distributed.trainer.step import TrainingParts


class Evaluation:
    """Mean loss over a fixed part of the held-out data.

    Every rank runs as many forward passes, as a strategy may need all ranks for each; what is only there to
    keep the others company weighs nothing.

    Args:
        parts: the model and its loss.
        data: held-out data set, not empty.
        collate: samples → batch.
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

    def run(self, on_batch: Callable[[int], None]) -> float:
        """The mean loss; weights, gradients and random generators are left as they are.

        Args:
            on_batch: called before each forward pass with its number of samples.

        Raises:
            RecipeError: the loss is not finite, or not a loss.
        """
        parts, losses = self._parts, WeightedSum()
        training = parts.wrapped.training
        parts.wrapped.eval()
        try:
            with torch.no_grad():
                for ids in self._batches:
                    on_batch(len(ids))
                    samples = [self._data[i] for i in ids or [0]]
                    batch = parts.strategy.to_device(self._collate(samples))
                    with parts.strategy.precision.autocast(parts.strategy.device):
                        returned = parts.loss(parts.wrapped, batch)
                    losses.add(*checked_loss(returned, len(ids)))
        finally:
            parts.wrapped.train(training)
        local = losses.total()
        total, weight = parts.strategy.group.sum([local, losses.weight])
        if not math.isfinite(total):
            raise_for_bad_loss(parts.strategy.group, local, what="held-out loss")
        return global_mean(total, weight, what="held-out")
