"""Batches from the order of samples: this rank's microbatches of every step."""

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
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.seeding import seed_all

_IN_WORKER = "Caught RecipeError in DataLoader worker"
"""Begin of the text with which torch raises a worker's error again: it has the worker's traceback in it."""
NO_IDS: Ids = np.empty(0, np.int64)


class SizedDataset(Protocol):
    """A map-style data set of known size."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


Collate = Callable[[list[Any]], Any]
"""Function from samples to a batch."""


@dataclass(frozen=True)
class Microbatch:
    """Input of one forward and backward."""

    batch: Any
    ids: Ids
    """Samples that were loaded and count, shape (n,); empty for a filler, run so that all ranks take part if
    only others have data.
    """

    @property
    def samples(self) -> int:
        """Return the number of samples that count."""
        return len(self.ids)


@dataclass(frozen=True)
class StepBatches:
    """This rank's part of one optimizer step."""

    samples: int
    """Samples of all ranks together."""
    after: DataPosition
    accumulation: int
    """Microbatches of this rank; as many on every rank."""
    microbatches: Iterator[Microbatch]
    """Must be consumed before the next step is requested."""
    epoch: int = 0
    shapes: Callable[[], Iterable[Hashable]] = tuple
    """Returns keys that distinguish the microbatches' shapes."""


def _plainly(loader: Iterable[tuple[bytes, Any]]) -> Iterator[tuple[bytes, Any]]:
    """Yield from a loader; an error of the recipe has its own sentence alone.

    Raises:
        RecipeError: as the recipe raised it in a worker.
    """
    try:
        yield from loader
    except RecipeError as error:
        if not str(error).startswith(_IN_WORKER):
            raise
        raise RecipeError(str(error).rpartition("RecipeError: ")[2].strip()) from None


class BatchLoader:
    """Batches of a data set, in an order that any world size shares.

    Args:
        data: map-style data set.
        order: the steps of all ranks.
        rank: rank whose part is loaded.
        seed: seed of random draws by samples in a worker.
        collate: function from samples to a batch; None is torch's default_collate. One with a parameter
            `layout=None` receives the microbatch's layout from a batch plan.
        workers: prefetching processes; 0 loads in the rank itself.
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
        """Yield the next `count` steps after `start`; workers live until the iterator is exhausted or closed.

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
        """Yield ids and batch of each microbatch."""
        data = _AskedSamples(self._data, self._seed if self._workers else None)
        collate = _CollateAsked(self._collate, takes_layout(self._collate))
        if not self._workers and not self._pin:
            # same as torch's loader, without its overhead, which is noticeable in small steps
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
            # Python 3.14's default on Linux imports a data set's module by name, which fails for a recipe
            # file
            multiprocessing_context="fork" if self._workers and sys.platform == "linux" else None,
        )
        return _plainly(loader)

    def _shares(
        self, start: DataPosition, count: int, ahead: deque[tuple[OrderedStep, list[int]]]
    ) -> Iterator[_Wanted]:
        """Yield the contents of this rank's microbatches; record in `ahead` which belong to each step."""
        for step in itertools.islice(self._order.steps(start), count):
            parts = [part.tolist() for part in step.parts(self._rank)]
            ahead.append((step, [len(part) for part in parts]))
            for part, layout in zip(parts, step.layouts(self._rank), strict=True):
                yield _Wanted(step.epoch, part or [step.filler], layout)


def samples_of(data: SizedDataset, ids: Sequence[int]) -> Any:
    """Return the samples `ids`, in one call if the data set supports that.

    Raises:
        RecipeError: the data set returned a different number of them.
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
    """Return the loader's result for one microbatch, of which `count` samples count: all, or none of a
    filler.
    """
    ids, batch = asked
    return Microbatch(batch, np.frombuffer(ids, np.int64) if count else NO_IDS)


class _Wanted(NamedTuple):
    """Request for one microbatch to the loader's workers."""

    epoch: int
    ids: list[int]
    layout: Layout | None


class _AskedSamples(Dataset[Any]):
    """A data set that returns the requested sample ids together with the samples.

    `set_epoch`, if defined, is called before the first sample of an epoch, in each process that reads.

    With a seed, random draws of a sample depend only on seed, epoch and sample. Otherwise, in a worker, they
    would depend on the number of workers.
    """

    def __init__(self, data: SizedDataset, seed: int | None) -> None:
        self._data = data
        self._seed = seed
        self._set_epoch: Callable[[int], object] | None = getattr(data, "set_epoch", None)
        self._epoch: int | None = None

    def __getitems__(self, wanted: _Wanted) -> tuple[bytes, Any, Layout | None]:
        """Return ids as int64 (bytes, as the loader would inspect a list), the samples, and their layout."""
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
    """A recipe's collate, which receives samples, and their layout if it needs it."""

    collate: Callable[..., Any]
    with_layout: bool

    def __call__(self, asked: Any) -> tuple[bytes, Any]:
        ids, samples, layout = asked
        return ids, self.collate(samples, layout=layout) if self.with_layout else self.collate(samples)


def takes_layout(collate: Collate | None) -> bool:
    """Return whether a collate has a parameter `layout` that is None by default: `collate(samples,
    layout=None)`.
    """
    try:
        parameter = None if collate is None else inspect.signature(collate).parameters.get("layout")
    except (TypeError, ValueError):  # builtins may have no signature
        return False
    # another default has another meaning, such as an image's memory format
    return parameter is not None and parameter.default is None


def evaluation_batches(
    size: int, microbatch: int, limit: int, *, rank: int, world_size: int
) -> list[list[int]]:
    """Return this rank's batches of validation samples, as ids; every rank has as many, some may be empty.

    All ranks together evaluate the same samples at any world size: at most `limit` microbatches, spread
    evenly over the data.
    """
    count = min(size, limit * microbatch)
    ids = [i * size // count for i in range(count)]
    batches: Sequence[list[int]] = [ids[i : i + microbatch] for i in range(0, count, microbatch)]
    rounds = -(-len(batches) // world_size)
    mine = list(batches[rank::world_size])
    return mine + [[] for _ in range(rounds - len(mine))]
