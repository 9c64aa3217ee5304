"""One optimizer step: microbatches forward and backward, one reduction, clipping, update."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.optim import Optimizer

from torchdeck.data.order import Ids
from torchdeck.distributed.batches import StepBatches
from torchdeck.distributed.group.process_group import PendingSum
from torchdeck.distributed.optimizers import set_lr
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.trainer.ema import Ema, EmaTensors
from torchdeck.distributed.trainer.loss_checks import (
    WeightedSum,
    checked_loss,
    global_mean,
    raise_for_bad_gradient,
    raise_for_bad_loss,
)
from torchdeck.distributed.trainer.statistics import tensor_statistics


@dataclass(frozen=True)
class StepRequests:
    """Requests of this rank to all: a request of any rank takes effect on all after the same step."""

    stop: bool = False
    """Stop, and resume another time."""
    save: bool = False
    """Save a checkpoint after this step."""
    end: bool = False
    """Complete training with this step."""

    def numbers(self) -> tuple[float, float, float]:
        """Return the requests as numbers to sum over the ranks."""
        return float(self.stop), float(self.save), float(self.end)


@dataclass(frozen=True)
class StepResult:
    """Result of one optimizer step, the same on every rank except `seconds` and `rank_…`."""

    step: int
    """Steps done, including this one."""
    loss: float
    """Mean over all tokens (or samples) of the global batch, before the update."""
    lr: float
    grad_norm: float | None
    """Norm of the whole gradient before clipping; None if it was not measured."""
    samples: int
    tokens: float
    """Number of tokens the loss is averaged over; samples if the recipe counts no tokens."""
    seconds: float
    stop: bool
    """A stop was requested; all ranks learn of it in the same step."""
    save: bool
    """A rank requested a checkpoint; all ranks learn of it in the same step."""
    end: bool
    """A rank requested the end of training; all ranks learn of it in the same step."""
    epoch: int
    """Epoch of the step, from 0."""
    rank_tokens: float
    """Like `tokens`, for this rank alone."""
    rank_ids: tuple[Ids, ...]
    """Samples in this rank's microbatches, without fillers."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Metrics that the recipe's loss returned with the loss: means over the same."""
    statistics: Mapping[str, float] = field(default_factory=dict)
    """Statistics of gradients before clipping and of weights before the update; empty if not requested."""


@dataclass(frozen=True)
class TrainingParts:
    """Components of an optimizer step."""

    strategy: DistributedStrategy
    model: nn.Module
    """The model that holds the weights."""
    wrapped: nn.Module
    """The module to call: `model` wrapped by the strategy and the compiler."""
    optimizer: Optimizer
    loss: Callable[[Any, Any], Any]
    """The recipe's loss function."""
    ema: Ema | None = None
    """Moving average of the weights."""

    def tensors(self) -> EmaTensors:
        """Return everything that a checkpoint holds as tensors."""
        inner = self.strategy.tensors(self.model, [self.optimizer])
        return EmaTensors(inner, self.ema, leads=self.strategy.is_main_process)


class Stepper:
    """Runs optimizer steps.

    The gradient is that of the mean over all tokens of the global batch, however unevenly they are
    distributed over microbatches and ranks. Their number is known only after the last forward. Each
    microbatch is therefore weighted by an estimate (tokens per sample in the first step × samples). The
    clipping pass applies the remaining factor.

    Attributes:
        tokens_per_sample: of the first step; None before it. Part of a checkpoint, as rounding depends on it.
    """

    def __init__(
        self, parts: TrainingParts, clip: float | None, tokens_per_sample: float | None = None
    ) -> None:
        self._parts = parts
        self._clip = clip
        self._metric_names: tuple[str, ...] | None = None
        self.tokens_per_sample = tokens_per_sample

    def run(
        self,
        batches: StepBatches,
        *,
        lr: float,
        measure: bool,
        requests: StepRequests,
        statistics: bool = False,
        began: float,
    ) -> StepResult:
        """Run one step.

        Args:
            batches: this rank's part.
            lr: learning rate of this step.
            measure: request the gradient norm; it is measured anyway if something depends on it.
            requests: requests of this rank.
            statistics: request those of gradients and weights, on all ranks.
            began: `time.perf_counter()` before the batches were requested.

        Raises:
            RecipeError: the loss or the gradient is not finite, or the recipe's loss is not a loss.
            AgreementError: ranks return different metrics.
        """
        parts = self._parts
        step = batches.after.step
        set_lr(parts.optimizer, lr)
        expected = batches.samples * (self.tokens_per_sample or 1.0)
        factor = parts.strategy.world_size / expected
        losses, ids, pending = self._accumulate(batches, factor, requests)
        total, *metrics, weight, stop, save, end = pending.wait()
        if not math.isfinite(total):
            raise_for_bad_loss(parts.strategy.group, losses, ids, what=f"loss in step {step}")
        loss = global_mean(total, weight, what="training")
        # a save may follow this step: non-finite values must not get into that checkpoint
        correction = expected / weight
        found = self._statistics(correction) if statistics else {}
        norm = self._update(correction, step, measure=measure or stop + save + end > 0)
        if self.tokens_per_sample is None:
            self.tokens_per_sample = weight / batches.samples
        return StepResult(
            step=step,
            loss=loss,
            lr=lr,
            grad_norm=norm,
            samples=batches.samples,
            tokens=weight,
            seconds=time.perf_counter() - began,
            stop=stop > 0,
            save=save > 0,
            end=end > 0,
            epoch=batches.epoch,
            rank_tokens=losses.weight,
            rank_ids=tuple(ids),
            metrics={
                name: global_mean(total, weight, what="training")
                for name, total in zip(losses.names, metrics, strict=True)
            },
            statistics=found,
        )

    def _accumulate(
        self, batches: StepBatches, factor: float, requests: StepRequests
    ) -> tuple[WeightedSum, list[Ids], PendingSum]:
        """Run forward and backward of every microbatch; each loss is multiplied by its weight and `factor`.

        Returns:
            This rank's losses, its samples, and [loss × weight, …, weight, *requests] being summed over all
            ranks.
            The sum begins before the last backward, so that no rank waits for it.
        """
        strategy, losses = self._parts.strategy, WeightedSum(self._metric_names)
        ids, pending = [], None
        for index, microbatch in enumerate(batches.microbatches):
            last = index == batches.accumulation - 1
            with strategy.accumulate(self._parts.wrapped, last=last):
                batch = strategy.to_device(microbatch.batch)
                with strategy.autocast():
                    returned = self._parts.loss(self._parts.wrapped, batch)
                checked = checked_loss(returned, microbatch.samples)
                losses.add(checked)
                ids.append(microbatch.ids)
                if last:
                    self._check_names(losses)
                    sums = losses.with_numbers(*requests.numbers(), device=strategy.device)
                    pending = strategy.group.start_sum(sums)
                share = checked.weight * factor
                # a factor of 1 is the usual case: saves one operation in forward and backward
                strategy.backward(checked.loss if share == 1.0 else checked.loss * share)
        if pending is None:
            raise RuntimeError("a step without microbatches")
        return losses, ids, pending

    def _check_names(self, losses: WeightedSum) -> None:
        # once: from then on each rank checks that its own do not change
        if self._metric_names is None:
            losses.check_names(self._parts.strategy.group)
            self._metric_names = losses.names

    def _statistics(self, correction: float) -> dict[str, float]:
        """Return statistics of gradients and weights; gradients still have the loss scale."""
        strategy = self._parts.strategy
        return tensor_statistics(strategy, self._parts.model, correction / strategy.scaler.scale)

    def _update(self, correction: float, step: int, *, measure: bool) -> float | None:
        """Clip and step; return the gradient norm if it was measured."""
        parts = self._parts
        norm = parts.strategy.clip_grad_norm(
            parts.model,
            scale=correction,
            max_norm=self._clip,
            measure=measure,
        )
        finite = norm is None or math.isfinite(norm)
        if norm is not None and not finite and not parts.strategy.scaler.enabled:
            raise_for_bad_gradient(parts.strategy.group, parts.model, norm, step)
        if parts.strategy.optimizer_step(parts.optimizer) and parts.ema is not None:
            parts.ema.update()
        parts.optimizer.zero_grad(set_to_none=True)
        return norm if finite else None
