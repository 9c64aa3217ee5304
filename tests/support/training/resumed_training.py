"""A training on real ranks that tells its state where it is saved or loaded, and which samples it used."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from support.ranks.measured_ranks import Job
from support.training.equivalence import settings_of
from torchdeck.data.step_order import DataPosition, StepOrder
from torchdeck.distributed.recipe_loading import load_recipe
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.trainer.callback import Callback
from torchdeck.distributed.trainer.step import StepResult, TrainingParts
from torchdeck.distributed.trainer.trainer import Trainer
from torchdeck.environment import RunContext


class Watcher(Callback):
    """Losses, sample ids as (epoch, id), and the state at the start and after step `stop`."""

    def __init__(self, stop: int) -> None:
        self._stop = stop
        self.losses: list[float] = []
        self.used: list[tuple[int, int]] = []
        self.started: list[Any] = []
        self.stopped: dict[str, str] = {}
        self._parts: TrainingParts | None = None

    def built(self, parts: TrainingParts) -> None:
        self._parts = parts

    def begin(self, order: StepOrder, start: DataPosition) -> None:  # noqa: ARG002 - as Callback has it
        self.started = [start.step, self._state()]

    def step(self, result: StepResult) -> None:
        self.losses.append(result.loss)
        self.used += [(result.epoch, int(id_)) for ids in result.rank_ids for id_ in ids]
        if result.step == self._stop:
            self.stopped = self._state()

    def _state(self) -> dict[str, str]:
        """Hash of the whole value by name, of weights and the optimizer's state; all ranks together."""
        if self._parts is None:
            raise RuntimeError("begin comes after built")
        tensors = self._parts.strategy.tensors(self._parts.model, [self._parts.optimizer])
        return {name: _digest(value) for name, value in (tensors.model() | tensors.optimizer()).items()}


def _digest(value: torch.Tensor) -> str:
    whole = value.full_tensor() if isinstance(value, DTensor) else value
    return hashlib.sha256(whole.detach().cpu().contiguous().numpy().tobytes()).hexdigest()


def train(job: Job) -> dict[str, Any]:
    """One training on this rank; `stop` in the job is the step whose state is told."""
    settings = settings_of(job)
    strategy = DistributedStrategy.from_config(settings.distributed, precision=settings.training.precision)
    strategy.setup()
    watcher = Watcher(job["stop"])
    context = RunContext(resume=Path(job["resume"]) if "resume" in job else None)
    trainer = Trainer(settings, load_recipe(settings.recipe), strategy, context, [watcher])
    trainer.run()
    trainer.close()
    return {
        "losses": watcher.losses,
        "used": watcher.used,
        "started": watcher.started,
        "stopped": watcher.stopped,
    }
