"""Interface by which other code observes training and requests its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.run_states import RankPhase
from torchdeck.data.step_order import DataPosition, StepOrder
from torchdeck.distributed.trainer.step import StepResult, TrainingParts


class Counts:
    """Totals since the start of training, over all attempts."""

    def __init__(self, tokens: float = 0.0, samples: int = 0) -> None:
        self.tokens = tokens
        self.samples = samples

    def add(self, result: StepResult) -> None:
        self.tokens += result.tokens
        self.samples += result.samples


class Callback:
    """Base class of callbacks; override the methods you need.

    A callback lives in one rank. A change to a weight on one rank only makes replicas diverge, and a
    collective that not all ranks call hangs. To end training call `request_stop`, which all ranks follow
    after the same step.

    A recipe's `callbacks(settings)` returns those of a run; a script passes them to its trainer.
    """

    stop_reason: str = ""
    """Why this callback requested the end of training; empty if it did not."""

    @arguments()
    def request_stop(self, reason: str) -> None:
        """Request the end of training; any rank may do so.

        All ranks end after the same step, the next one that starts: it is evaluated, saved as `final`, and
        the exit code is 0.

        Args:
            reason: printed; a clause such as "the learning rate is too low to continue".
        """
        self.stop_reason = reason or "a callback asked for it"

    def model_next(self) -> None:
        """The data is loaded, and the model is built next."""

    def built(self, parts: TrainingParts) -> None:
        """Model and optimizer are built; a checkpoint is not loaded yet.

        `parts.model` holds the weights as the strategy keeps them: whole ones under single and DDP, this
        rank's shards (DTensors) under FSDP.
        """

    def begin(self, order: StepOrder, start: DataPosition) -> None:
        """Training starts; the steps of `order` from `start` on follow."""

    def phase(self, phase: RankPhase, step: int, total: int | None) -> None:
        """A phase starts or continues; called again with every sign of progress."""

    def step(self, result: StepResult) -> None:
        """A step is done: weights are updated, gradients are freed."""

    def row(self, result: StepResult, rates: Rates, counts: Counts) -> None:
        """A step with a row of metrics is done; called after `step`."""

    def evaluated(self, step: int, values: Mapping[str, float]) -> None:
        """Called with the means over validation data after `step` steps: `validation_loss`, and
        `validation_…` for each metric.
        """

    def ended(self, step: int, reason: str) -> None:
        """Training ends after `step` steps, early, for this reason."""

    def saved(self, step: int, values: Mapping[str, float]) -> None:
        """The checkpoint of `step`: `save_stall`, seconds that training waited for it; `save_seconds` until
        it was complete, reported when it is; `save_interval`, seconds to the next one if the interval is
        chosen from them.
        """

    def close(self) -> None:
        """Called when training is over, or failed."""


# Training throughput, excluding waits for evaluation and checkpoints.


@dataclass(frozen=True)
class Rates:
    """Averages over the steps since the last reading; all ranks together."""

    tokens_per_s: float
    samples_per_s: float
    step_time: float
    """Seconds."""


class Throughput:
    """Accumulates steps between two readings."""

    def __init__(self) -> None:
        self._clear()

    def add(self, result: StepResult) -> None:
        self._steps += 1
        self._tokens += result.tokens
        self._samples += result.samples
        self._seconds += result.seconds

    def take(self) -> Rates | None:
        """Return the rates since the last call; None if there was no step."""
        if self._steps == 0:
            return None
        seconds = max(self._seconds, 1e-9)
        rates = Rates(self._tokens / seconds, self._samples / seconds, seconds / self._steps)
        self._clear()
        return rates

    def _clear(self) -> None:
        self._steps = 0
        self._tokens = 0.0
        self._samples = 0
        self._seconds = 0.0
