"""Training loop: steps, and between them metrics, evaluation, checkpoints and stop requests."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from torchdeck.contract.run_states import RankPhase
from torchdeck.data.step_order import DataPosition
from torchdeck.distributed.batches import BatchLoader, StepBatches
from torchdeck.distributed.optimizers import lr_factor
from torchdeck.distributed.rank_settings import RecipeSettings
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.trainer.callback import Callback, Counts, Throughput
from torchdeck.distributed.trainer.divergence import DivergenceCheck
from torchdeck.distributed.trainer.evaluation import Evaluation
from torchdeck.distributed.trainer.hooks import Phases
from torchdeck.distributed.trainer.save_schedule import SaveSchedule
from torchdeck.distributed.trainer.saving import Saving
from torchdeck.distributed.trainer.step import Stepper, StepRequests, StepResult
from torchdeck.distributed.trainer.stopping import EarlyStopping, StopSource


@dataclass(frozen=True)
class LoopParts:
    """Components that the loop drives."""

    strategy: DistributedStrategy
    stepper: Stepper
    loader: BatchLoader
    evaluation: Evaluation | None
    early_stopping: EarlyStopping
    saving: Saving
    cadence: SaveSchedule
    stop: StopSource
    phases: Phases
    drift: DivergenceCheck
    hooks: Sequence[Callback]


class TrainingLoop:
    """Trains from a position to the last step, or until a stop is requested.

    Args:
        settings: what to train and how.
        parts: the components that do the work.
        total: optimizer steps in all.
        position: where to begin.
        counts: totals of earlier training.
    """

    def __init__(
        self, settings: RecipeSettings, parts: LoopParts, total: int, position: DataPosition, counts: Counts
    ) -> None:
        self._settings = settings
        self._parts = parts
        self._total = total
        self._position = position
        self._counts = counts
        self._throughput = Throughput()

    @property
    def position(self) -> DataPosition:
        """Return the current position in the data."""
        return self._position

    def run(self) -> bool:
        """Train.

        Returns:
            True if training is complete, at its last step or after an early end; False if it was stopped
            before.
            Either way the state is saved.

        Raises:
            RecipeError: the loss is not finite, or not a loss.
            CheckpointError: a checkpoint could not be written.
        """
        parts = self._parts
        if self._settings.training.check_every is not None:
            parts.drift.run(self._position.step)
        # run the evaluation now if a stop came between a step and its evaluation
        if _due(self._settings.training.eval_every, self._position.step):
            self._evaluate()
        # a stop request that arrived during loading takes effect before the first step
        stopped = parts.strategy.group.sum([float(parts.stop.wished())])[0] > 0 or self._steps()
        if stopped:
            parts.phases.enter(RankPhase.STOPPING, self._position.step)
            if parts.saving.saved_step != self._position.step:
                self._save()
        elif self._settings.checkpoint.final:
            self._save(final=True)
        parts.saving.wait()
        self._report_saves()
        parts.phases.enter(RankPhase.STOPPING if stopped else RankPhase.DONE, self._position.step)
        return not stopped

    def _steps(self) -> bool:
        """Run the remaining steps; return whether training was stopped before the last."""
        if self._ends_early():
            return False
        left = max(0, self._total - self._position.step)
        with closing(self._parts.loader.steps(self._position, left)) as steps:
            began = time.perf_counter()
            for batches in steps:
                result = self._step(batches, began)
                last = result.step == self._total or result.end
                if result.stop and not last:
                    return True
                if last or self._evaluation_due(result):
                    self._evaluate()
                if self._ends_early(result):
                    return False
                if not last and self._parts.cadence.due(result, self._position):
                    self._save(background=self._settings.checkpoint.background)
                self._report_saves()
                began = time.perf_counter()
        return False

    def _ends_early(self, result: StepResult | None = None) -> bool:
        """Return whether training is complete before its last step; report why."""
        if self._position.step >= self._total:
            return False
        reason = self._parts.early_stopping.reason
        if not reason and result is not None and result.end:
            reasons = [hook.stop_reason for hook in self._parts.hooks if hook.stop_reason]
            reason = "; ".join(reasons) or "a callback on another rank asked for it"
        for hook in self._parts.hooks if reason else ():
            hook.ended(self._position.step, reason)
        return bool(reason)

    def _step(self, batches: StepBatches, began: float) -> StepResult:
        step, parts = batches.after.step, self._parts
        parts.phases.compute(RankPhase.TRAINING, step - 1, batches.shapes)
        wants_row = step == self._total or _due(self._settings.telemetry.every, step)
        result = parts.stepper.run(
            batches,
            lr=self._lr(step - 1),
            # also measured before a save: non-finite values must not get into a checkpoint
            measure=wants_row or parts.cadence.foreseen(batches.after, batches.epoch),
            requests=StepRequests(
                stop=parts.stop.wished(),
                # a failed background save is raised by the next one, on all ranks at once
                save=parts.cadence.wished(step) or parts.saving.failed,
                end=any(hook.stop_reason for hook in parts.hooks),
            ),
            statistics=_due(self._settings.telemetry.stats_every, step),
            began=began,
        )
        self._position = batches.after
        self._counts.add(result)
        self._throughput.add(result)
        self._report(result, wants_row=wants_row)
        if _due(self._settings.training.check_every, step):
            parts.drift.run(step)
        return result

    def _report(self, result: StepResult, *, wants_row: bool) -> None:
        rates = self._throughput.take() if wants_row else None
        for hook in self._parts.hooks:
            hook.step(result)
            if rates is not None:
                hook.row(result, rates, self._counts)

    def _evaluation_due(self, result: StepResult) -> bool:
        training, epochs = self._settings.training, self._position.epoch
        if _due(training.eval_every, result.step):
            return True
        return epochs > result.epoch and _due(training.eval_every_epochs, epochs)

    def _evaluate(self) -> None:
        parts, step = self._parts, self._position.step
        if parts.evaluation is None or parts.saving.evaluated_step == step:
            return
        values = parts.evaluation.run(
            lambda size: parts.phases.compute(RankPhase.EVALUATING, step, lambda: [size])
        )
        parts.saving.evaluated(step, values)
        parts.early_stopping.evaluated(step, values["validation_loss"])
        for hook in parts.hooks:
            hook.evaluated(step, values)

    def _save(self, *, final: bool = False, background: bool = False) -> None:
        parts, step = self._parts, self._position.step
        parts.phases.enter(RankPhase.SAVING, step)
        stall = parts.saving.save(
            self._position, parts.stepper, self._counts, final=final, background=background
        )
        interval = parts.cadence.saved(stall)
        values = (
            {"save_stall": stall} if interval is None else {"save_stall": stall, "save_interval": interval}
        )
        for hook in parts.hooks:
            hook.saved(step, values)

    def _report_saves(self) -> None:
        for time_taken in self._parts.saving.times():
            self._parts.cadence.written(time_taken.seconds)
            for hook in self._parts.hooks:
                hook.saved(time_taken.step, {"save_seconds": time_taken.seconds})

    def _lr(self, step: int) -> float:
        training = self._settings.training
        return training.scaled_lr * lr_factor(
            step,
            total=self._total,
            warmup=training.warmup_steps,
            schedule=training.schedule,
            min_ratio=training.min_lr_ratio,
        )


def _due(every: int | None, step: int) -> bool:
    return every is not None and step % every == 0
