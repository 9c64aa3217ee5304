"""What every rank does in every optimizer step, wherever the order comes from: the seed, or a batch plan.

The trainer takes its steps from here, and so do the preview before a run and the audit after it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from torchdeck.data.order import (
    GlobalBatch,
    Ids,
    Position,
    PositionError,
    SampleOrder,
    global_batches,
    steps_left,
)


class DataPosition(Protocol):
    """Where training is in the data; free of world size and accumulation."""

    @property
    def epoch(self) -> int:
        """Epochs finished."""

    @property
    def step(self) -> int:
        """Optimizer steps done since the very start."""

    def to_json(self) -> dict[str, Any]:
        """What a checkpoint holds."""


class Layout(NamedTuple):
    """How a batch plan lays out a microbatch, for a collate that wants to know."""

    max_len: int
    """Tokens that each row is padded, and a longer sample cut, to."""
    row_sizes: tuple[int, ...] | None
    """Samples in each row, in order; None where each has a row of its own."""


class OrderedStep(ABC):
    """One optimizer step of all ranks."""

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The epoch it belongs to, from 0."""

    @property
    @abstractmethod
    def samples(self) -> int:
        """Of all ranks together, at least 1."""

    @property
    @abstractmethod
    def after(self) -> DataPosition:
        """The position once it is done."""

    @property
    @abstractmethod
    def filler(self) -> int:
        """A sample id for ranks that have nothing to do while others have: it does not count."""

    @abstractmethod
    def parts(self, rank: int) -> list[Ids]:
        """Ids of the microbatches of `rank`, as many on every rank; some may be empty."""

    def layouts(self, rank: int) -> list[Layout | None]:
        """One for each of `parts`; None where nothing is said of it."""
        return [None] * len(self.parts(rank))

    @abstractmethod
    def shapes(self) -> Iterator[Hashable]:
        """What tells the microbatches' shapes apart, for torch.compile compiles once for each."""


class StepOrder(ABC):
    """The steps of a whole training."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Samples in the data set."""

    @abstractmethod
    def epoch_samples(self, epoch: int) -> int:
        """How many samples epoch `epoch` (from 0) has, each of them once."""

    @property
    @abstractmethod
    def batch_plan(self) -> str:
        """Fingerprint of the batch plan; empty where there is none."""

    @property
    @abstractmethod
    def start(self) -> DataPosition:
        """The very beginning."""

    @property
    def needs_layout(self) -> str:
        """Why samples alone do not tell what a microbatch is, as a clause; empty where they do."""
        return ""

    @abstractmethod
    def restored(self, value: Mapping[str, Any]) -> DataPosition:
        """The position that `to_json` of one gave.

        Raises:
            PositionError: it is none, or does not belong to this order or data set.
        """

    @abstractmethod
    def steps(self, start: DataPosition) -> Iterator[OrderedStep]:
        """The steps after `start`, to the end of the order if it has one.

        Raises:
            PositionError: `start` does not fit the data set.
        """

    @abstractmethod
    def steps_left(self, epochs: float, position: DataPosition) -> int:
        """Optimizer steps from `position` to the end of `epochs` epochs, counted from the very start.

        A fraction at the end is rounded up to a whole number of steps.

        Raises:
            ValueError: the order has fewer epochs.
        """

    def total_steps(self, steps: int | None, epochs: float | None, position: DataPosition) -> int:
        """Optimizer steps in all, those before `position` included.

        In epochs, what is left of them is counted from `position` on, as the steps before may have had
        another global batch.

        Raises:
            ValueError: the order has fewer.
        """
        if steps is not None:
            return steps
        return max(1, position.step + self.steps_left(epochs or 0.0, position))


class SeededStep(OrderedStep):
    """A global batch, dealt out."""

    def __init__(self, batch: GlobalBatch, world_size: int, accumulation: int) -> None:
        self._batch = batch
        self._world_size = world_size
        self._accumulation = accumulation

    @property
    def epoch(self) -> int:
        return self._batch.before.epoch

    @property
    def samples(self) -> int:
        return len(self._batch.ids)

    @property
    def after(self) -> Position:
        return self._batch.after

    @property
    def filler(self) -> int:
        return int(self._batch.ids[0])

    def parts(self, rank: int) -> list[Ids]:
        return [
            self._batch.microbatch(index, rank, world_size=self._world_size, accumulation=self._accumulation)
            for index in range(self._accumulation)
        ]

    def shapes(self) -> Iterator[Hashable]:
        yield self.samples


class SeededSteps(StepOrder):
    """Steps of `microbatch` × `accumulation` × `world_size` samples in an order that the seed gives."""

    batch_plan = ""

    def __init__(self, order: SampleOrder, *, microbatch: int, accumulation: int, world_size: int) -> None:
        self._order = order
        self._accumulation = accumulation
        self._world_size = world_size
        self._global_batch = microbatch * accumulation * world_size

    @property
    def size(self) -> int:
        return self._order.size

    def epoch_samples(self, epoch: int) -> int:  # noqa: ARG002 - they are all alike
        return self.size

    @property
    def start(self) -> Position:
        return Position()

    def restored(self, value: Mapping[str, Any]) -> Position:
        if "batch_plan" in value:
            raise PositionError(
                f"the checkpoint was made with batch plan {str(value['batch_plan'])[:12]}, and this run has "
                "none: give training.batch_plan, or start afresh"
            )
        position = Position.from_json(value)
        position.check(self.size)
        return position

    def steps(self, start: DataPosition) -> Iterator[OrderedStep]:
        batches = global_batches(self._order, self._global_batch, _seeded(start))
        return (SeededStep(batch, self._world_size, self._accumulation) for batch in batches)

    def steps_left(self, epochs: float, position: DataPosition) -> int:
        return steps_left(self.size, self._global_batch, epochs, _seeded(position))


def _seeded(position: DataPosition) -> Position:
    if not isinstance(position, Position):
        raise PositionError(f"{position} is not a position in an order that a seed gives")
    return position
