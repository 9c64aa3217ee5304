"""From the order of samples to batches: this rank's microbatches of every step."""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from torchdeck.data.order import GlobalBatch, Position, SampleOrder, global_batches
from torchdeck.distributed.seeding import seed_all


class SizedDataset(Protocol):
    """A map-style data set of known size."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


Collate = Callable[[list[Any]], Any]
"""Samples → batch."""


@dataclass(frozen=True)
class Microbatch:
    """What one forward and backward sees."""

    batch: Any
    samples: int
    """Samples that count: 0 for a filler, run so that all ranks take part where only others have data."""


@dataclass(frozen=True)
class StepBatches:
    """This rank's part of one optimizer step."""

    samples: int
    """Of all ranks together."""
    after: Position
    accumulation: int
    """Microbatches of this rank; as many on every rank."""
    microbatches: Iterator[Microbatch]
    """To be used up before the next step is asked for."""


@dataclass(frozen=True)
class BatchShape:
    """How a step is divided."""

    microbatch: int
    accumulation: int
    rank: int
    world_size: int

    @property
    def global_batch(self) -> int:
        """Samples of one step."""
        return self.microbatch * self.accumulation * self.world_size


class BatchLoader:
    """Batches of a data set, in an order that any world size shares.

    Args:
        data: map-style data set.
        order: of its samples.
        shape: how steps are divided among ranks.
        collate: samples → batch; None is torch's default_collate.
        workers: processes that load ahead; 0 loads in the rank itself.
        timeout: how long a worker may take for a batch, seconds.
        pin: put batches into pinned memory, for a GPU.
    """

    def __init__(
        self,
        data: SizedDataset,
        order: SampleOrder,
        shape: BatchShape,
        *,
        collate: Collate | None = None,
        workers: int = 0,
        timeout: float = 0.0,
        pin: bool = False,
    ) -> None:
        self._data = data
        self._order = order
        self._shape = shape
        self._collate = collate or default_collate
        self._workers = workers
        self._timeout = timeout if workers else 0.0
        self._pin = pin

    def steps(self, start: Position, count: int) -> Generator[StepBatches, None, None]:
        """The next `count` steps after `start`; workers live until the iterator is used up or closed.

        Raises:
            PositionError: `start` does not fit the data set.
        """
        ahead: deque[tuple[GlobalBatch, list[int]]] = deque()
        shares = self._shares(start, count, ahead)
        source: Any = _SeededSamples(self._data, self._order.seed) if self._workers else self._data
        loader: DataLoader[Any] = DataLoader(
            source,
            batch_sampler=shares,
            collate_fn=self._collate,
            num_workers=self._workers,
            timeout=self._timeout,
            pin_memory=self._pin,
            # its own: the loader must not draw from the generator that dropout uses
            generator=torch.Generator().manual_seed(self._order.seed % (1 << 63)),
            # Python 3.14's default on Linux imports a data set's module by name, which a recipe file's is not
            multiprocessing_context="fork" if self._workers and sys.platform == "linux" else None,
        )
        batches = iter(loader)
        for _ in range(count):
            first = next(batches)
            step, counts = ahead.popleft()
            loaded = itertools.chain([first], itertools.islice(batches, len(counts) - 1))
            yield StepBatches(len(step.ids), step.after, len(counts), map(Microbatch, loaded, counts))

    def _shares(
        self, start: Position, count: int, ahead: deque[tuple[GlobalBatch, list[int]]]
    ) -> Iterator[list[Any]]:
        """Keys of this rank's microbatches, one list each; says in `ahead` what belongs to which step."""
        shape = self._shape
        for step in itertools.islice(global_batches(self._order, shape.global_batch, start), count):
            parts = [
                step.microbatch(
                    i, shape.rank, world_size=shape.world_size, accumulation=shape.accumulation
                ).tolist()
                for i in range(shape.accumulation)
            ]
            ahead.append((step, [len(part) for part in parts]))
            for part in parts:
                ids = part or [int(step.ids[0])]
                yield [(step.before.epoch, id_) for id_ in ids] if self._workers else ids


class _SeededSamples(Dataset[Any]):
    """A data set in a worker: what a sample draws depends on seed, epoch and sample, not on the worker."""

    def __init__(self, data: SizedDataset, seed: int) -> None:
        self._data = data
        self._seed = seed

    def __getitem__(self, key: tuple[int, int]) -> Any:
        epoch, sample = key
        seed_all(self._seed + (epoch << 40), stream=1 + sample)
        return self._data[sample]


def evaluation_batches(
    size: int, microbatch: int, limit: int, *, rank: int, world_size: int
) -> list[list[int]]:
    """This rank's batches of held-out samples, as ids; every rank has as many, some may be empty.

    All ranks together evaluate the same samples at any world size: at most `limit` microbatches, spread
    evenly over the data.
    """
    count = min(size, limit * microbatch)
    ids = [i * size // count for i in range(count)]
    batches: Sequence[list[int]] = [ids[i : i + microbatch] for i in range(0, count, microbatch)]
    rounds = -(-len(batches) // world_size)
    mine = list(batches[rank::world_size])
    return mine + [[] for _ in range(rounds - len(mine))]
