"""Order of samples: which rank takes which sample in which step, at any world size.

An epoch is one permutation of the data set. Each optimizer step takes the next `global_batch` samples of it.
The last global batch of an epoch takes the remainder, however small, so that each sample of an epoch counts
exactly once: nothing is padded, nothing dropped, no batch crosses into the next epoch. A global batch of n
samples is cut into `accumulation × world_size` consecutive parts, part k from ⌊k·n/parts⌋ to ⌊(k+1)·n/parts⌋;
microbatch m of rank r is part m·world_size + r. In a full batch every microbatch therefore has the same size.
In a partial one, sizes differ by at most one, and are zero for some if there are fewer samples than parts.
The samples of a step depend only on its position, never on world size or accumulation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from torchdeck.contract.arguments.checked_call import arguments, checked_class
from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.contract.refusal import Refusal

Ids = npt.NDArray[np.int64]
"""Sample ids, shape (n,)."""

_WORD = 1 << 64


class PositionError(Refusal, ValueError):
    """A position is invalid, or does not match the data set."""

    page = "data#batch-plans"


def position_counts(value: Any, names: tuple[str, ...]) -> list[int]:
    """Return the fields `names` of any kind of position, as from its `to_json`: whole numbers of at least 0.

    Raises:
        PositionError: a field is missing, wrong or unknown, or it is a position of a newer Torchdeck.
    """
    if not isinstance(value, Mapping):
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        raise PositionError(f"a position is an object with {listed}, not {value!r}")
    if value.get("v") != 1:
        raise PositionError(f"position has version {value.get('v')!r}; this Torchdeck reads version 1")
    unknown = set(value) - {"v", *names}
    if unknown:
        raise PositionError(f"position has unknown fields: {', '.join(sorted(map(str, unknown)))}")
    return [position_count(name, value.get(name)) for name in names]


def position_count(name: str, value: Any) -> int:
    """Return `value`; raise PositionError unless it can be the field `name` of a position."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise PositionError(f"{name} of a position must be a whole number from 0, not {repr(value)[:80]}")
    return value


@checked_class
@dataclass(frozen=True)
class Position:
    """Position in the data; it does not depend on world size, accumulation or batch size."""

    epoch: int = 0
    """Number of finished epochs."""
    consumed: int = 0
    """Number of samples of the current epoch that are done."""
    step: int = 0
    """Number of optimizer steps since the start of training."""

    def to_json(self) -> dict[str, int]:
        return {"v": 1, "epoch": self.epoch, "consumed": self.consumed, "step": self.step}

    @classmethod
    @arguments(own_checks=True)
    def from_json(cls, value: Any) -> Position:
        """Read a position from `value`.

        Raises:
            PositionError: it is not a position, or was written by a newer Torchdeck.
        """
        return cls(*position_counts(value, ("epoch", "consumed", "step")))

    @arguments(own_checks=True)
    def check(self, size: int) -> None:
        """Raise PositionError if this cannot be a position in a data set of `size` samples."""
        if self.consumed > size:
            raise PositionError(
                f"the position says {self.consumed} samples of the epoch are used, but the data set "
                f"has {size}: it is not the data set of the checkpoint"
            )


@checked_class
@dataclass(frozen=True)
class SampleOrder:
    """The permutation of every epoch of a data set.

    Sorted by 64 random bits per sample from Philox (Salmon et al., SC 2011) with key (seed, epoch). Raw bits
    and a stable sort make it independent of the numpy version, and no two (seed, epoch) share a stream.

    Attributes:
        size: samples in the data set, at least 1.
        seed: 0 to 2⁶⁴ − 1.

    Raises:
        ValueError: size or seed is out of range.
    """

    size: int
    seed: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ArgumentError(
                f"a data set of {self.size} samples has no order", fix="it needs at least one sample"
            )
        if not 0 <= self.seed < _WORD:
            raise ArgumentError(f"seed {self.seed} is out of range", fix="it must be from 0 to 2**64 - 1")

    @arguments(own_checks=True)
    def epoch(self, epoch: int) -> Ids:
        """Return the sample ids in the order of epoch `epoch` (from 0), shape (size,)."""
        if not 0 <= epoch < _WORD:
            raise ArgumentError(f"epoch {epoch} is out of range", fix="it must be from 0 to 2**64 - 1")
        key = np.array([self.seed, epoch], dtype=np.uint64)
        bits = np.random.Philox(key=key).random_raw(self.size)
        return np.argsort(bits, kind="stable").astype(np.int64, copy=False)


@dataclass(frozen=True)
class GlobalBatch:
    """Samples of one optimizer step."""

    ids: Ids
    """In order, shape (n,); n is the global batch size, or less in the last batch of an epoch."""
    before: Position
    after: Position
    """Position after this step."""

    def microbatch(self, index: int, rank: int, *, world_size: int, accumulation: int) -> Ids:
        """Return the ids of microbatch `index` of `rank`; may be empty in the last batch of an epoch.

        The gradient of the batch is the mean over its samples. If sizes differ, a microbatch's mean loss is
        therefore weighted by `len(microbatch) / len(ids)`.

        Raises:
            ValueError: rank or index is out of range.
        """
        if not 0 <= rank < world_size or not 0 <= index < accumulation:
            raise ArgumentError(
                f"rank {rank}, microbatch {index} is out of range for world size {world_size} and "
                f"accumulation {accumulation}"
            )
        parts = world_size * accumulation
        part = index * world_size + rank
        size = len(self.ids)
        return self.ids[part * size // parts : (part + 1) * size // parts]


@arguments(own_checks=True)
def global_batches(
    order: SampleOrder, global_batch: int, start: Position | None = None
) -> Iterator[GlobalBatch]:
    """Yield the batches from `start` (default: the beginning) on, endlessly; each `after` can be a `start`.

    Args:
        order: the data set's order.
        global_batch: samples of one optimizer step (microbatch × accumulation × world size).
        start: position to resume from; if `global_batch` changes there, each sample of the epoch still counts
            exactly once.

    Raises:
        ValueError: `global_batch` is less than 1.
        PositionError: `start` does not fit the data set.
    """
    if global_batch < 1:
        raise ArgumentError(f"global batch {global_batch} is out of range", fix="it must be at least 1")
    position = start if start is not None else Position()
    position.check(order.size)
    return _batches(order, global_batch, position)


def _batches(order: SampleOrder, global_batch: int, position: Position) -> Iterator[GlobalBatch]:
    epoch, consumed, step = position.epoch, position.consumed, position.step
    while True:
        ids = order.epoch(epoch)
        while consumed < order.size:
            taken = ids[consumed : consumed + global_batch]
            before = Position(epoch, consumed, step)
            consumed, step = consumed + len(taken), step + 1
            whole = consumed == order.size
            after = Position(epoch + 1, 0, step) if whole else Position(epoch, consumed, step)
            yield GlobalBatch(taken, before, after)
        epoch, consumed = epoch + 1, 0


def steps_per_epoch(size: int, global_batch: int) -> int:
    """Return the optimizer steps of one whole epoch, including the partial last batch."""
    return -(-size // global_batch)


def begun_epoch(size: int, each: int, epochs: float) -> int:
    """Return the part of the last epoch, of length `size`, that belongs to `epochs`: whole steps of `each`.

    The fraction counts as the decimal number that was written: for 1.3 epochs of 10 it is 3. In binary, 1.3 -
    1 is a little more than 0.3 and would add a step too many.
    """
    fraction = Fraction(repr(float(epochs))) % 1
    return min(size, math.ceil(fraction * size / each) * each)


def steps_left(size: int, global_batch: int, epochs: float, position: Position) -> int:
    """Return the optimizer steps from `position` to the end of `epochs` epochs, counted from the start of
    training.

    A fraction at the end is rounded up to a whole number of steps.
    """
    whole = math.floor(epochs)
    tail = begun_epoch(size, global_batch, epochs)
    if position.epoch > whole:
        return 0
    if position.epoch == whole:
        return max(0, steps_per_epoch(tail - position.consumed, global_batch))
    this_epoch = steps_per_epoch(size - position.consumed, global_batch)
    between = (whole - position.epoch - 1) * steps_per_epoch(size, global_batch)
    return this_epoch + between + steps_per_epoch(tail, global_batch)
