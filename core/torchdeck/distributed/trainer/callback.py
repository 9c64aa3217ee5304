"""What the outside may be told of training, and may ask of it."""

from __future__ import annotations

from collections.abc import Mapping

from torchdeck.contract.run_states import RankPhase
from torchdeck.data.step_order import DataPosition, StepOrder
from torchdeck.distributed.trainer.step import StepResult, TrainingParts
from torchdeck.distributed.trainer.throughput import Rates


class Counts:
    """What was trained on since the very start, over all attempts."""

    def __init__(self, tokens: float = 0.0, samples: int = 0) -> None:
        self.tokens = tokens
        self.samples = samples

    def add(self, result: StepResult) -> None:
        self.tokens += result.tokens
        self.samples += result.samples


class Callback:
    """Is told what happens; a subclass overrides what it wants to know.

    It lives in one rank, and what it does there the other ranks do not see: a change to a weight on one rank
    alone makes ranks drift apart, and a collective that not all of them call never ends. Ask for the end of
    training by `request_stop`, which all ranks follow after the same step.

    A recipe's `callbacks(settings)` gives those of a run; a script hands them to its trainer.
    """

    stop_reason: str = ""
    """Why this callback asked for the end of training; empty where it did not."""

    def request_stop(self, reason: str) -> None:
        """Ask that training ends; any rank may.

        All ranks end after the same step, the next one that begins, as at their last: evaluated, saved as
        `final`, with exit code 0.

        Args:
            reason: is printed; a clause such as "the learning rate is too low to go on".
        """
        self.stop_reason = reason or "a callback asked for it"

    def model_next(self) -> None:
        """Data is there, and the model is built next."""

    def built(self, parts: TrainingParts) -> None:
        """Model and optimizer are there, a checkpoint is not loaded yet.

        `parts.model` holds the weights as the strategy keeps them: whole ones under single and DDP, this
        rank's shards (DTensors) under FSDP.
        """

    def begin(self, order: StepOrder, start: DataPosition) -> None:
        """All is there; steps of `order` follow from `start` on."""

    def phase(self, phase: RankPhase, step: int, total: int | None) -> None:
        """A phase began, or goes on: called again with every sign of life."""

    def step(self, result: StepResult) -> None:
        """A step is done: weights are updated, gradients let go of."""

    def row(self, result: StepResult, rates: Rates, counts: Counts) -> None:
        """A step is done that metrics are wanted of; after `step`."""

    def evaluated(self, step: int, values: Mapping[str, float]) -> None:
        """Means over held-out data after `step` steps: `heldout_loss`, and `heldout_…` for each metric."""

    def ended(self, step: int, reason: str) -> None:
        """Training ends after `step` steps, before its last, for this reason."""

    def saved(self, step: int, values: Mapping[str, float]) -> None:
        """Of the checkpoint of `step`: `save_stall`, seconds that training stood still for it; `save_seconds`
        until it was complete, told when it is; `save_interval`, seconds to the next one, where they are
        chosen from that."""

    def close(self) -> None:
        """Training is over, or failed."""
