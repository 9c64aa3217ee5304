"""Checkpoints of a training: their contents, and resuming from one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.data.step_order import DataPosition, StepOrder
from torchdeck.distributed.checkpoints.retention import Retention
from torchdeck.distributed.checkpoints.store import CheckpointStore, SaveTime, TrainState
from torchdeck.distributed.rank_settings import CheckpointSettings
from torchdeck.distributed.trainer.callback import Counts
from torchdeck.distributed.trainer.step import Stepper, TrainingParts
from torchdeck.distributed.trainer.stopping import EarlyStopping
from torchdeck.distributed.trainer.training_data import DataIdentity
from torchdeck.environment import RunContext


class Saving:
    """Saves and loads the complete state of a training.

    Args:
        parts: model, optimizer, scaler and the strategy, as used in training.
        settings: where and how many.
        context: the run named in the manifest.
        order: order of the data.
        data: identity of the data.
        early_stopping: early stopping of this training.
    """

    def __init__(
        self,
        parts: TrainingParts,
        settings: CheckpointSettings,
        context: RunContext,
        order: StepOrder,
        data: DataIdentity,
        early_stopping: EarlyStopping,
    ) -> None:
        self._parts = parts
        self._order = order
        self._data = data
        self._early_stopping = early_stopping
        self._directory = Path(settings.directory) if settings.directory else None
        self._store = CheckpointStore(
            self._directory,
            Retention.from_settings(settings),
            run_id=context.run_id,
            attempt=context.attempt,
            rank=parts.strategy.rank,
            world_size=parts.strategy.world_size,
            strategy=parts.strategy.name,
            replicas=settings.replicas,
        )
        self.saved_step: int | None = None
        """The newest step this attempt saved or started from."""
        self.evaluated_step: int | None = None
        """The newest step that was evaluated, in this attempt or before."""
        self._metrics: Mapping[str, float] = {}

    def close(self) -> None:
        """Release the folder, so that another run can save there."""
        self._store.close()

    @property
    def failed(self) -> bool:
        """Return whether a background save failed on this rank. The next `save` or `wait` raises its error on
        every rank.
        """
        return self._store.failed

    def wait(self) -> None:
        """Wait for a background save.

        Raises:
            CheckpointError: it could not be written; earlier checkpoints are unchanged.
        """
        self._store.wait()

    def times(self) -> list[SaveTime]:
        """Return the durations of the saves completed since the last call."""
        return self._store.times()

    def evaluated(self, step: int, values: Mapping[str, float]) -> None:
        """Record validation results after `step` steps; a checkpoint of that step includes them."""
        self.evaluated_step, self._metrics = step, values

    def save(
        self,
        position: DataPosition,
        stepper: Stepper,
        counts: Counts,
        *,
        final: bool = False,
        background: bool = False,
    ) -> float:
        """Save all ranks' state, if there is a directory for it; every rank calls it at the same step.

        Args:
            position: position in the data.
            stepper: stepper of this training.
            counts: totals of this training.
            final: save as `final`.
            background: training continues while it is written.

        Returns:
            Seconds that training was blocked.

        Raises:
            CheckpointError: it could not be written, or the background save could not; earlier checkpoints
                are unchanged.
        """
        if self._directory is None:
            return 0.0
        began = time.monotonic()
        extra = {
            "tokens": counts.tokens,
            "samples": counts.samples,
            "tokens_per_sample": stepper.tokens_per_sample,
            "evaluated_step": self.evaluated_step,
            "early_stopping": self._early_stopping.state_dict(),
            "data": self._data.to_json(),
        }
        state = self._state(position, extra)
        metrics = self._metrics if self.evaluated_step == position.step else {}
        if background:
            self._store.save_in_background(state, position.step, metrics=metrics)
        else:
            self._store.save(state, position.step, final=final, metrics=metrics)
        self.saved_step = position.step
        return time.monotonic() - began

    def load(self, folder: Path, stepper: Stepper, counts: Counts) -> DataPosition:
        """Load the state of checkpoint `folder` into model, optimizer, scaler, `stepper` and `counts`.

        Returns:
            Position in the data at which training resumes.

        Raises:
            CheckpointError: it is damaged, or of another model.
            PositionError: it is of another data set or batch plan.
        """
        loaded = self._store.load(folder, self._state(self._order.start, {}))
        self._data.check_same(loaded.extra.get("data"))
        position = self._order.restored(loaded.position)
        self._parts.strategy.scaler.load_state_dict(dict(loaded.scaler_state))
        stepper.tokens_per_sample = loaded.extra.get("tokens_per_sample")
        counts.tokens = float(loaded.extra.get("tokens", 0.0))
        counts.samples = int(loaded.extra.get("samples", 0))
        self._early_stopping.load_state_dict(loaded.extra.get("early_stopping", {}))
        # a checkpoint without this value was saved after its evaluation
        self.evaluated_step = loaded.extra.get("evaluated_step", loaded.step)
        self.saved_step = loaded.step
        return position

    def _state(self, position: DataPosition, extra: dict[str, Any]) -> TrainState:
        parts = self._parts
        return TrainState(
            model=parts.model,
            optimizers=[parts.optimizer],
            # the learning rate is a pure function of the step, so this is all the state a scheduler has
            scheduler_state={"step": position.step},
            scaler_state=parts.strategy.scaler.state_dict(),
            position=position.to_json(),
            extra=extra,
            tensors=parts.tensors(),
        )
