"""Batches of a sampler's indices, with a position that can be saved between any two of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.data.checked import whole_number
from torchdeck.data.order import Ids
from torchdeck.data.sampler import DistributedSampler
from torchdeck.data.spellings import BATCH_SIZE, BatchSizeSpelling

if TYPE_CHECKING:
    from typing_extensions import Unpack


class DistributedBatchIterator:
    """Batches of one rank, epoch by epoch.

    Every rank has the same number of batches, so all take part in every reduction. The last batch may be
    smaller; with an `exactly_once` sampler it is empty on ranks that have no samples left.

    Args:
        sampler: the sampler of this rank. The iterator advances it, so do not share it.
        batch_size: samples per batch, at least 1.

    Raises:
        ValueError: batch_size is less than 1.
    """

    @arguments(also=BATCH_SIZE, own_checks=True)
    def __init__(
        self, sampler: DistributedSampler, batch_size: int | None = None, **_: Unpack[BatchSizeSpelling]
    ) -> None:
        self.sampler = sampler
        self.batch_size = whole_number("batch_size", batch_size, 1)
        self._done = 0
        self._begin()

    @property
    def epoch(self) -> int:
        return self.sampler.epoch

    @property
    def num_batches(self) -> int:
        """Number of batches in the epoch, or in the rest of it after a state was loaded. The same on every
        rank.
        """
        return -(-self.sampler.remaining // (self.batch_size * self.sampler.world_size))

    @property
    def iteration(self) -> int:
        """Number of batches that were taken."""
        return self._done

    def has_next(self) -> bool:
        """Return whether the epoch has another batch."""
        return self._done < self.num_batches

    def next(self) -> Ids:
        """Return the sample ids of the next batch, shape (n,), with n at most batch_size.

        Raises:
            StopIteration: the epoch is over; `reset` starts the next.
        """
        if not self.has_next():
            raise StopIteration(
                f"epoch {self.epoch} is over after {self.num_batches} batches: "
                f"reset({self.epoch + 1}) goes to the next"
            )
        start = self._done * self.batch_size
        self._done += 1
        return self._indices[start : start + self.batch_size]

    def __next__(self) -> Ids:
        return self.next()

    def __iter__(self) -> Iterator[Ids]:
        """Yield the rest of the epoch."""
        return self

    def __len__(self) -> int:
        return self.num_batches

    @arguments(own_checks=True)
    def reset(self, epoch: int | None = None) -> None:
        """Go to the start of an epoch. Default: the current one.

        Raises:
            ValueError: the epoch is negative.
        """
        self.sampler.rewind(self.epoch if epoch is None else epoch)
        self._begin()

    def state_dict(self) -> dict[str, Any]:
        """The position as JSON; the same on every rank that has taken the same number of batches."""
        most = -(-self.sampler.remaining // self.sampler.world_size)
        return self.sampler.state_dict(min(self._done * self.batch_size, most))

    @arguments(own_checks=True)
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state, with any batch size; with `exactly_once` also at any world size.

        Raises:
            PositionError: see `DistributedSampler.load_state_dict`.
        """
        self.sampler.load_state_dict(state)
        self._begin()

    def _begin(self) -> None:
        self._done = 0
        self._indices = self.sampler.get_indices()
