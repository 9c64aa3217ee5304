"""From the order of samples to batches: this rank's microbatches of every step."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from torchdeck.data.order import Ids
from torchdeck.data.step_order import DataPosition, Layout, OrderedStep, StepOrder
from torchdeck.distributed.recipe import RecipeError
from torchdeck.distributed.seeding import seed_all

NO_IDS: Ids = np.empty(0, np.int64)


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
    ids: Ids
    """Samples that the data set was asked for and that count, shape (n,); empty for a filler, run so that all
    ranks take part where only others have data."""

    @property
    def samples(self) -> int:
        """Samples that count."""
        return len(self.ids)


@dataclass(frozen=True)
class StepBatches:
    """This rank's part of one optimizer step."""

    samples: int
    """Of all ranks together."""
    after: DataPosition
    accumulation: int
    """Microbatches of this rank; as many on every rank."""
    microbatches: Iterator[Microbatch]
    """To be used up before the next step is asked for."""
    epoch: int = 0
    shapes: Callable[[], Iterable[Hashable]] = tuple
    """What tells the microbatches' shapes apart."""


class BatchLoader:
    """Batches of a data set, in an order that any world size shares.

    Args:
        data: map-style data set.
        order: the steps of all ranks.
        rank: whose part is loaded.
        seed: of what samples draw in a worker.
        collate: samples → batch; None is torch's default_collate. One with a parameter `layout=None` is told
            how a batch plan lays the microbatch out.
        workers: processes that load ahead; 0 loads in the rank itself.
        timeout: how long a worker may take for a batch, seconds.
        pin: put batches into pinned memory, for a GPU.
    """

    def __init__(
        self,
        data: SizedDataset,
        order: StepOrder,
        *,
        rank: int,
        seed: int,
        collate: Collate | None = None,
        workers: int = 0,
        timeout: float = 0.0,
        pin: bool = False,
    ) -> None:
        self._data = data
        self._order = order
        self._rank = rank
        self._seed = seed
        self._collate = collate or default_collate
        self._workers = workers
        self._timeout = timeout if workers else 0.0
        self._pin = pin

    def steps(self, start: DataPosition, count: int) -> Generator[StepBatches, None, None]:
        """The next `count` steps after `start`; workers live until the iterator is used up or closed.

        Raises:
            PositionError: `start` does not fit the data set.
        """
        ahead: deque[tuple[OrderedStep, list[int]]] = deque()
        batches = self._batches(self._shares(start, count, ahead))
        for _ in range(count):
            first = next(batches)
            step, counts = ahead.popleft()
            loaded = itertools.chain([first], itertools.islice(batches, len(counts) - 1))
            microbatches = map(_counted, loaded, counts)
            yield StepBatches(step.samples, step.after, len(counts), microbatches, step.epoch, step.shapes)

    def _batches(self, shares: Iterator[_Wanted]) -> Iterator[tuple[bytes, Any]]:
        """Ids and batch of each microbatch."""
        data = _AskedSamples(self._data, self._seed if self._workers else None)
        collate = _CollateAsked(self._collate, takes_layout(self._collate))
        if not self._workers and not self._pin:
            # what torch's loader would do, without what it costs: in small steps that can be felt
            return (collate(data.__getitems__(wanted)) for wanted in shares)
        loader: DataLoader[Any] = DataLoader(
            data,
            batch_sampler=shares,  # type: ignore[arg-type]  # what it gives is handed to __getitems__ as it is
            collate_fn=collate,
            num_workers=self._workers,
            timeout=self._timeout,
            pin_memory=self._pin,
            # its own: the loader must not draw from the generator that dropout uses
            generator=torch.Generator().manual_seed(self._seed % (1 << 63)),
            # Python 3.14's default on Linux imports a data set's module by name, which a recipe file's is not
            multiprocessing_context="fork" if self._workers and sys.platform == "linux" else None,
        )
        return iter(loader)

    def _shares(
        self, start: DataPosition, count: int, ahead: deque[tuple[OrderedStep, list[int]]]
    ) -> Iterator[_Wanted]:
        """What this rank's microbatches are made of; says in `ahead` what belongs to which step."""
        for step in itertools.islice(self._order.steps(start), count):
            parts = [part.tolist() for part in step.parts(self._rank)]
            ahead.append((step, [len(part) for part in parts]))
            for part, layout in zip(parts, step.layouts(self._rank), strict=True):
                yield _Wanted(step.epoch, part or [step.filler], layout)


def samples_of(data: SizedDataset, ids: Sequence[int]) -> Any:
    """The samples `ids`, all at once where the data set can give them so.

    Raises:
        RecipeError: the data set gave another number of them.
    """
    many: Callable[[list[int]], Any] | None = getattr(data, "__getitems__", None)
    if many is None:
        return [data[sample] for sample in ids]
    samples = many([*ids])  # a data set may reorder the list it is given
    if len(samples) != len(ids):
        raise RecipeError(
            f"__getitems__ of the data set returned {len(samples)} samples for {len(ids)} ids: "
            "return one for each"
        )
    return samples


def _counted(asked: Sequence[Any], count: int) -> Microbatch:
    """What the loader gave for one microbatch, of which `count` samples count: all, or none of a filler."""
    ids, batch = asked
    return Microbatch(batch, np.frombuffer(ids, np.int64) if count else NO_IDS)


class _Wanted(NamedTuple):
    """One microbatch, as the loader's workers are asked for it."""

    epoch: int
    ids: list[int]
    layout: Layout | None


class _AskedSamples(Dataset[Any]):
    """A data set that says which samples it was asked for, beside what it gave.

    One with `set_epoch` is told of the epoch before the first sample of it, in each process that reads.

    With a seed, what a sample draws depends on seed, epoch and sample alone: in a worker, whose generators
    would else tell how many workers there are.
    """

    def __init__(self, data: SizedDataset, seed: int | None) -> None:
        self._data = data
        self._seed = seed
        self._set_epoch: Callable[[int], object] | None = getattr(data, "set_epoch", None)
        self._epoch: int | None = None

    def __getitems__(self, wanted: _Wanted) -> tuple[bytes, Any, Layout | None]:
        """Ids as int64 (bytes, as the loader would look into a list), the samples, and their layout."""
        epoch, ids, layout = wanted
        if self._set_epoch is not None and epoch != self._epoch:
            self._set_epoch(epoch)
            self._epoch = epoch
        samples = (
            samples_of(self._data, ids)
            if self._seed is None
            else [self._seeded(epoch, sample) for sample in ids]
        )
        return np.array(ids, np.int64).tobytes(), samples, layout

    def _seeded(self, epoch: int, sample: int) -> Any:
        seed_all((self._seed or 0) + (epoch << 40), stream=1 + sample)
        return self._data[sample]


@dataclass(frozen=True)
class _CollateAsked:
    """A recipe's collate, which sees samples, and their layout where it wants to."""

    collate: Callable[..., Any]
    with_layout: bool

    def __call__(self, asked: Any) -> tuple[bytes, Any]:
        ids, samples, layout = asked
        return ids, self.collate(samples, layout=layout) if self.with_layout else self.collate(samples)


def takes_layout(collate: Collate | None) -> bool:
    """Whether a collate has a parameter `layout` that is None by default: `collate(samples, layout=None)`."""
    try:
        parameter = None if collate is None else inspect.signature(collate).parameters.get("layout")
    except (TypeError, ValueError):  # builtins need not say what they take
        return False
    # by another default it means something else, such as how an image lies in memory
    return parameter is not None and parameter.default is None


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
