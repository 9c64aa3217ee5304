"""History of a training: losses and metrics by step and by epoch, and throughput."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.distributed.group.agreement import Group
from torchdeck.distributed.trainer.callback import Callback
from torchdeck.distributed.trainer.step import StepResult

_VALIDATION = "validation_"


@dataclass
class StepRecord:
    """One optimizer step."""

    step: int
    """Counted from 1, since the start of training."""
    epoch: int
    """From 1."""
    loss: float
    """Mean over the global batch, before the update."""
    metrics: dict[str, float]
    lr: float
    grad_norm: float | None
    samples: int


@dataclass
class EpochRecord:
    """One epoch, or the trained part of it: after a resume inside it, the remainder."""

    epoch: int
    """From 1."""
    step: int
    """Its last step so far."""
    samples: int
    loss: float
    """Mean over its steps, weighted by the samples or tokens that counted in each."""
    metrics: dict[str, float]
    validation: dict[str, float]
    """`loss` and metrics on validation data at its end, or the latest in it; empty if there were none."""
    seconds: float
    """Seconds in optimizer steps; excludes validation and checkpoints."""
    samples_per_s: float
    """All ranks together."""


@dataclass
class ValidationRecord:
    """One evaluation on validation data."""

    step: int
    values: dict[str, float]
    """`loss`, and each metric."""


@dataclass
class History:
    """Losses and metrics of a training, the same on every rank. Later calls of `fit` append to it."""

    world_size: int = 1
    effective_batch_size: int = 0
    """Global batch size: microbatch × accumulation × world size."""
    epochs: list[EpochRecord] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    validations: list[ValidationRecord] = field(default_factory=list)
    seconds: float = 0.0
    """Total time in `fit`."""
    finished: bool = False
    """Whether the last `fit` reached its end; False if it was stopped early."""

    @property
    def samples_per_s(self) -> float:
        """Mean over all epochs; 0 before the first step."""
        seconds = sum(epoch.seconds for epoch in self.epochs)
        return sum(epoch.samples for epoch in self.epochs) / seconds if seconds else 0.0

    @arguments()
    def series(self, name: str) -> list[float]:
        """One number per epoch: `loss`, a metric, or either on validation data, such as `validation_loss`.

        Epochs without it are left out, so the list is empty for a name that was never recorded.
        """
        if name.startswith("validation_"):
            key = name.removeprefix("validation_")
            return [epoch.validation[key] for epoch in self.epochs if key in epoch.validation]
        if name == "loss":
            return [epoch.loss for epoch in self.epochs]
        return [epoch.metrics[name] for epoch in self.epochs if name in epoch.metrics]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {**asdict(self), "samples_per_s": self.samples_per_s}

    def to_json(self) -> str:
        return json.dumps(self.to_dict())


class HistoryCallback(Callback):
    """Writes a history while a training runs.

    Args:
        history: history to extend.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._first = len(history.epochs)
        self._weight = 0.0

    def step(self, result: StepResult) -> None:
        number, history = result.epoch + 1, self._history
        history.steps.append(
            StepRecord(
                result.step,
                number,
                result.loss,
                dict(result.metrics),
                result.lr,
                result.grad_norm,
                result.samples,
            )
        )
        if len(history.epochs) == self._first or history.epochs[-1].epoch != number:
            history.epochs.append(EpochRecord(number, 0, 0, 0.0, {}, {}, 0.0, 0.0))
            self._weight = 0.0
        self._add(history.epochs[-1], result)

    def evaluated(self, step: int, values: Mapping[str, float]) -> None:
        found = {name.removeprefix(_VALIDATION): value for name, value in values.items()}
        self._history.validations.append(ValidationRecord(step, found))
        if len(self._history.epochs) > self._first and self._history.epochs[-1].step == step:
            self._history.epochs[-1].validation = found

    def _add(self, epoch: EpochRecord, result: StepResult) -> None:
        self._weight += result.tokens
        share = result.tokens / self._weight
        epoch.step = result.step
        epoch.samples += result.samples
        epoch.seconds += result.seconds
        epoch.loss += (result.loss - epoch.loss) * share
        for name, value in result.metrics.items():
            before = epoch.metrics.get(name, 0.0)
            epoch.metrics[name] = before + (value - before) * share

    def finish(self, group: Group, seconds: float, *, finished: bool) -> None:
        """Finish: every rank takes the times of the slowest.

        Args:
            group: the ranks, which all call this.
            seconds: in fit, on this rank.
            finished: it was not stopped.
        """
        history = self._history
        new = history.epochs[self._first :]
        slowest = [-value for value in group.minimum([-seconds, *(-epoch.seconds for epoch in new)])]
        history.seconds += slowest[0]
        history.finished = finished
        for epoch, spent in zip(new, slowest[1:], strict=True):
            epoch.seconds = spent
            epoch.samples_per_s = epoch.samples / spent if spent else 0.0
