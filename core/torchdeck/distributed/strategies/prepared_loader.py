"""A loader of one rank's share of the samples, made of a loader over all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler
from torch.utils.data import DistributedSampler as TorchSampler

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError, shown
from torchdeck.data import sampler as sampler_of_ids
from torchdeck.distributed.sampler import DistributedSampler
from torchdeck.distributed.strategies.devices import on_device

Batch = TypeVar("Batch")
Sampler = sampler_of_ids.DistributedSampler | TorchSampler[Any]
"""Sampler of a rank's samples: the library's, with torch's base or without it, or torch's own."""

_KEPT = (
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
    "prefetch_factor",
    "persistent_workers",
)
"""Attributes of a DataLoader that are also arguments of one."""


class PreparedDataLoader(Generic[Batch]):
    """Batches of this rank's samples, on its device.

    Args:
        loader: over all samples.
        rank: this rank.
        world_size: number of ranks.
        device: where batches are moved to.
        seed: of the order, if the loader shuffles.

    Raises:
        ArgumentError: the loader has no data set of known size, or a sampler of its own.
    """

    @arguments()
    def __init__(
        self, loader: DataLoader[Batch], *, rank: int, world_size: int, device: torch.device, seed: int = 0
    ) -> None:
        self.loader = _of_rank(loader, rank, world_size, seed)
        """The loader of this rank, on the CPU."""
        self.device = device
        self._begun: int | None = None
        """Epoch of the last pass; None: the sampler's epoch is that of the next one."""

    @property
    def sampler(self) -> Sampler:
        """The sampler of this rank's samples."""
        found: Sampler = self.loader.sampler  # type: ignore[assignment]  # _of_rank
        return found

    @property
    def dataset(self) -> Any:
        return self.loader.dataset

    @property
    def batch_size(self) -> int | None:
        """Samples per batch of this rank."""
        return self.loader.batch_size

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass, as the sampler's own `set_epoch` does.

        A pass after which no epoch is set is followed by one of the next epoch.
        """
        self.sampler.set_epoch(epoch)
        self._begun = None

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of one epoch, from the sampler's position in it on."""
        if self._begun is not None and self.sampler.epoch == self._begun:
            self.sampler.set_epoch(self._begun + 1)
        self._begun = self.sampler.epoch
        for batch in self.loader:
            yield on_device(batch, self.device)


def _is_whole(sampled: RandomSampler, loader: DataLoader[Any]) -> bool:
    """Return whether a sampler yields each sample once."""
    return not sampled.replacement and sampled.num_samples == len(loader.dataset)  # type: ignore[arg-type]  # as its sampler needs


def _of_rank(loader: DataLoader[Batch], rank: int, world_size: int, seed: int) -> DataLoader[Batch]:
    if isinstance(loader.sampler, (TorchSampler, sampler_of_ids.DistributedSampler)):
        return loader
    sampled: object = loader.sampler
    shuffles = isinstance(sampled, RandomSampler) and _is_whole(sampled, loader)
    in_batches = type(loader.batch_sampler) is BatchSampler
    if not in_batches or not (shuffles or type(sampled) is SequentialSampler):
        own = sampled if in_batches or loader.batch_sampler is None else loader.batch_sampler
        raise ArgumentError(
            f"the loader has {shown(own)} as its sampler, which cannot be divided among ranks",
            fix="give a loader with shuffle=True or False, or one with a DistributedSampler",
        )
    sampler = DistributedSampler(loader.dataset, world_size, rank, shuffle=shuffles, seed=seed)  # type: ignore[arg-type]  # has a length, as its sampler needs one
    kept = {name: getattr(loader, name) for name in _KEPT}
    return DataLoader(
        loader.dataset,
        batch_size=loader.batch_size,
        sampler=sampler,
        drop_last=loader.drop_last,
        **kept,
    )
