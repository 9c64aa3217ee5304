"""Checkpoints of a training: what is in them, and going on from one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchdeck.data.step_order import DataPosition, StepOrder
from torchdeck.distributed.checkpoints.store import CheckpointStore, TrainState
from torchdeck.distributed.settings import CheckpointSettings
from torchdeck.distributed.trainer.data_identity import DataIdentity
from torchdeck.distributed.trainer.hooks import Counts
from torchdeck.distributed.trainer.step import Stepper, TrainingParts
from torchdeck.environment import RunContext


class Saving:
    """Saves and loads everything a training consists of.

    Args:
        parts: model, optimizer, scaler and the strategy, all as they train.
        settings: where and how many.
        context: the run that is named in the manifest.
        order: of the data.
        data: which data it is.
    """

    def __init__(
        self,
        parts: TrainingParts,
        settings: CheckpointSettings,
        context: RunContext,
        order: StepOrder,
        data: DataIdentity,
    ) -> None:
        self._parts = parts
        self._order = order
        self._data = data
        self._directory = Path(settings.directory) if settings.directory else None
        self._store = CheckpointStore(
            self._directory,
            keep_last=settings.keep_last,
            run_id=context.run_id,
            attempt=context.attempt,
            rank=parts.strategy.rank,
            world_size=parts.strategy.world_size,
            strategy=parts.strategy.name,
        )
        self.saved_step: int | None = None
        """The newest step this attempt saved or started from."""
        self.evaluated_step: int | None = None
        """The newest step that was evaluated, in this attempt or before."""

    def close(self) -> None:
        """Let another run save there."""
        self._store.close()

    def save(self, position: DataPosition, stepper: Stepper, counts: Counts, *, final: bool = False) -> None:
        """Save all ranks' state, where there is a directory for it; every rank calls it at the same step.

        Raises:
            CheckpointError: it could not be written; earlier checkpoints are as they were.
        """
        if self._directory is None:
            return
        extra = {
            "tokens": counts.tokens,
            "samples": counts.samples,
            "tokens_per_sample": stepper.tokens_per_sample,
            "evaluated_step": self.evaluated_step,
            "data": self._data.to_json(),
        }
        self._store.save(self._state(position, extra), position.step, final=final)
        self.saved_step = position.step

    def load(self, folder: Path, stepper: Stepper, counts: Counts) -> DataPosition:
        """Put the state of checkpoint `folder` into model, optimizer, scaler, `stepper` and `counts`.

        Returns:
            Where in the data training goes on.

        Raises:
            CheckpointError: it is damaged, or of another model.
            PositionError: it is of another data set or batch plan.
        """
        loaded = self._store.load(folder, self._state(self._order.start, {}))
        self._data.check_same(loaded.extra.get("data"))
        position = self._order.restored(loaded.position)
        self._parts.scaler.load_state_dict(dict(loaded.scaler_state))
        stepper.tokens_per_sample = loaded.extra.get("tokens_per_sample")
        counts.tokens = float(loaded.extra.get("tokens", 0.0))
        counts.samples = int(loaded.extra.get("samples", 0))
        # a checkpoint that does not say was saved after its evaluation
        self.evaluated_step = loaded.extra.get("evaluated_step", loaded.step)
        self.saved_step = loaded.step
        return position

    def _state(self, position: DataPosition, extra: dict[str, Any]) -> TrainState:
        parts = self._parts
        return TrainState(
            model=parts.model,
            optimizers=[parts.optimizer],
            # the learning rate is a pure function of the step, so this is all a scheduler remembers
            scheduler_state={"step": position.step},
            scaler_state=parts.scaler.state_dict(),
            position=position.to_json(),
            extra=extra,
            tensors=parts.strategy.tensors(parts.model, [parts.optimizer]),
        )
