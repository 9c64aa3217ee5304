"""Samples of this rank, and batches of them, with methods for what the library has as attributes."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any, cast

from torch.utils.data import DistributedSampler as TorchSampler

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.data import batch_iterator
from torchdeck.data import sampler as samplers
from torchdeck.distributed.group.processes import get_rank, get_world_size


class DistributedSampler:
    """Indices of this rank, epoch by epoch: those of torch's DistributedSampler.

    Args:
        dataset_size: number of samples, at least 1.
        shuffle: use a new order in every epoch.
        seed: the same on every rank.
        drop_last: drop samples that do not divide evenly, instead of padding.

    Raises:
        ValueError: an argument is out of range.
    """

    @arguments(own_checks=True)
    def __init__(
        self, dataset_size: int, *, shuffle: bool = True, seed: int = 0, drop_last: bool = False
    ) -> None:
        world_size, rank = get_world_size(), get_rank()
        self.library = samplers.DistributedSampler(
            dataset_size, world_size, rank, shuffle=shuffle, seed=seed, drop_last=drop_last
        )
        """The sampler that does the work."""
        self._size, self._world_size = dataset_size, world_size

    @arguments(own_checks=True)
    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch, which has an order of its own."""
        self.library.set_epoch(epoch)

    def get_indices(self) -> list[int]:
        """Return this rank's indices of the epoch."""
        return [int(index) for index in self.library.get_indices()]

    def __iter__(self) -> Iterator[int]:
        return iter(self.get_indices())

    def __len__(self) -> int:
        return self.local_size()

    def local_size(self) -> int:
        """Return the number of samples of this rank per epoch."""
        return len(self.library)

    def total_size(self) -> int:
        """Return the number of samples of the data set."""
        return self._size

    def padded_size(self) -> int:
        """Return the number of samples of all ranks per epoch, which world_size divides."""
        return self.local_size() * self._world_size


class DistributedBatchIterator:
    """Batches of this rank's indices, epoch by epoch.

    Args:
        sampler: a sampler of this package, of the library, or torch's DistributedSampler.
        batch_size: samples per batch, at least 1; the last batch may be smaller.

    Raises:
        ArgumentError: it is another kind of sampler.
        ValueError: batch_size is less than 1.
    """

    @arguments(own_checks=True)
    def __init__(
        self, sampler: DistributedSampler | samplers.DistributedSampler | TorchSampler[Any], batch_size: int
    ) -> None:
        self._sampler = sampler
        self._iterator = batch_iterator.DistributedBatchIterator(_library(sampler), batch_size)

    def has_next(self) -> bool:
        """Return whether the epoch has another batch."""
        return self._iterator.has_next()

    def next(self) -> list[int]:
        """Return the indices of the next batch.

        Raises:
            StopIteration: the epoch is over; `reset` starts the next.
        """
        return [int(index) for index in self._iterator.next()]

    def __iter__(self) -> Iterator[list[int]]:
        while self.has_next():
            yield self.next()

    def num_batches(self) -> int:
        """Return the number of batches per epoch; the same on every rank."""
        return self._iterator.num_batches

    @arguments(own_checks=True)
    def reset(self, epoch: int) -> None:
        """Go to the start of an epoch, the sampler too."""
        self._sampler.set_epoch(epoch)
        self._iterator.reset(epoch)


def _library(sampler: Any) -> samplers.DistributedSampler:
    """Return the library's sampler with the indices of `sampler`."""
    if isinstance(sampler, DistributedSampler):
        return sampler.library
    if type(sampler) is TorchSampler:
        found = samplers.DistributedSampler(
            len(cast("Sized", sampler.dataset)),
            sampler.num_replicas,
            sampler.rank,
            shuffle=sampler.shuffle,
            seed=sampler.seed,
            drop_last=sampler.drop_last,
        )
        found.set_epoch(sampler.epoch)
        return found
    if isinstance(sampler, samplers.DistributedSampler):
        return sampler
    raise ArgumentError(
        f"the sampler is a {type(sampler).__name__}",
        fix="give a DistributedSampler of this package, of torchdeck.distributed or of torch",
    )
