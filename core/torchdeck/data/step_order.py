"""Work of every rank in every optimizer step, from either kind of order: the seed, or a batch plan.

Used by the trainer, by the preview before a run and by the audit after it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
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
    """Training position in the data; independent of world size and accumulation."""

    @property
    def epoch(self) -> int:
        """Completed epochs."""

    @property
    def step(self) -> int:
        """Optimizer steps done since the start of training."""

    def to_json(self) -> dict[str, Any]:
        """Return the position for a checkpoint."""


class Layout(NamedTuple):
    """Layout of a microbatch in a batch plan, for a collate that needs it."""

    max_len: int
    """Length to which each row is padded, and a longer sample truncated, in tokens."""
    row_sizes: tuple[int, ...] | None
    """Samples in each row, in order; None if each has its own row."""


class OrderedStep(ABC):
    """One optimizer step of all ranks."""

    @property
    @abstractmethod
    def epoch(self) -> int:
        """Return its epoch, from 0."""

    @property
    @abstractmethod
    def samples(self) -> int:
        """Return the samples of all ranks together, at least 1."""

    @property
    @abstractmethod
    def after(self) -> DataPosition:
        """Return the position after it."""

    @property
    @abstractmethod
    def filler(self) -> int:
        """Return a sample id for ranks without work while others have some: it does not count."""

    @abstractmethod
    def parts(self, rank: int) -> list[Ids]:
        """Return the ids of the microbatches of `rank`, as many on every rank; some may be empty."""

    def layouts(self, rank: int) -> list[Layout | None]:
        """Return one layout for each of `parts`; None if unspecified."""
        return [None] * len(self.parts(rank))

    @abstractmethod
    def shapes(self) -> Iterator[Hashable]:
        """Yield keys that distinguish the microbatches' shapes, as torch.compile compiles once for each."""


class StepOrder(ABC):
    """Steps of a whole training."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Samples in the data set."""

    @property
    def sample_names(self) -> Sequence[str] | None:
        """Return the names of the samples by id, if a batch plan names them: ids are then no rows."""
        return None

    @abstractmethod
    def epoch_samples(self, epoch: int) -> int:
        """Return the number of samples in epoch `epoch` (from 0), each of them once."""

    @property
    @abstractmethod
    def batch_plan(self) -> str:
        """Return the fingerprint of the batch plan; empty if there is none."""

    @property
    @abstractmethod
    def start(self) -> DataPosition:
        """Return the initial position."""

    @property
    def needs_layout(self) -> str:
        """Return why sample ids alone do not define a microbatch, as a clause; empty if they do."""
        return ""

    @abstractmethod
    def restored(self, value: Mapping[str, Any]) -> DataPosition:
        """Return the position from a `to_json` result.

        Raises:
            PositionError: it is invalid, or does not belong to this order or data set.
        """

    @abstractmethod
    def steps(self, start: DataPosition) -> Iterator[OrderedStep]:
        """Yield the steps after `start`, to the end of the order if it has one.

        Raises:
            PositionError: `start` does not fit the data set.
        """

    @abstractmethod
    def steps_left(self, epochs: float, position: DataPosition) -> int:
        """Return the optimizer steps from `position` to the end of `epochs` epochs, counted from the start of
        training.

        A fraction at the end is rounded up to a whole number of steps.

        Raises:
            ValueError: the order has fewer epochs.
        """

    def total_steps(self, steps: int | None, epochs: float | None, position: DataPosition) -> int:
        """Return the total optimizer steps, including those before `position`.

        With epochs, the remainder is counted from `position` on, as earlier steps may have had another global
        batch.

        Raises:
            ValueError: the order has fewer.
        """
        if steps is not None:
            return steps
        return max(1, position.step + self.steps_left(epochs or 0.0, position))


class SeededStep(OrderedStep):
    """A global batch, distributed over the ranks."""

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
    """Steps of `microbatch` × `accumulation` × `world_size` samples in the seed's order."""

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
                f"the checkpoint was made with batch plan {str(value['batch_plan'])[:12]}, "
                "and this run has none",
                fix="give batch_plan, or start over",
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
