"""Data movement caused by a change of world size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.data.checked import checked_rank, whole_number


@dataclass(frozen=True)
class Move:
    """Consecutive samples and their rank before and after; the same if they stay."""

    start: int
    stop: int
    """One past the last sample."""
    from_rank: int
    to_rank: int

    @property
    def samples(self) -> int:
        return self.stop - self.start

    @property
    def stays(self) -> bool:
        return self.from_rank == self.to_rank


@dataclass(frozen=True)
class Redistribution:
    """The rank of every sample before and after a change of world size."""

    total_samples: int
    old_world_size: int
    new_world_size: int
    parts: tuple[Move, ...]
    """Ranges in the order of samples, without gaps, including those that keep their rank."""

    @property
    def moves(self) -> tuple[Move, ...]:
        """The ranges that change their rank."""
        return tuple(part for part in self.parts if not part.stays)

    @property
    def moved_samples(self) -> int:
        return sum(move.samples for move in self.moves)

    def text(self) -> str:
        """The moves as text: a summary line, then one line per move."""
        summary = (
            f"{self.total_samples} samples from {self.old_world_size} to {self.new_world_size} ranks: "
            f"{self.moved_samples} move, {self.total_samples - self.moved_samples} stay"
        )
        lines = [
            f"samples {move.start} to {move.stop - 1}: rank {move.from_rank} to rank {move.to_rank}"
            for move in self.moves
        ]
        return "\n".join([summary, *lines])


@arguments(own_checks=True)
def redistribution_report(total_samples: int, old_world_size: int, new_world_size: int) -> Redistribution:
    """Report which samples move if `total_samples` on `old_world_size` ranks are divided among
    `new_world_size`.

    Time and memory are proportional to old + new ranks, whatever the number of samples.

    Raises:
        ValueError: fewer than one sample or rank.
    """
    old = DistributedRangeSplitter(total_samples, old_world_size)
    new = DistributedRangeSplitter(total_samples, new_world_size)
    bounds = {part.start for splitter in (old, new) for part in splitter.get_all_ranges()}
    starts = sorted(bound for bound in bounds if bound < old.total_samples)
    stops = [*starts[1:], old.total_samples]
    parts = tuple(
        Move(start, stop, old.get_rank_for_sample(start), new.get_rank_for_sample(start))
        for start, stop in zip(starts, stops, strict=True)
    )
    return Redistribution(old.total_samples, old.world_size, new.world_size, parts)


# Consecutive ranges of samples, one per rank: sizes differ by at most one, the larger ones come first.
#
# With n samples over W ranks, n = q·W + r: the first r ranks have q + 1 samples, the others q. For example,
# 23 over 4 are 6, 6, 6, 5. If there are more ranks than samples, the last ranks have empty ranges.


class RankRange(NamedTuple):
    """Samples start, start + 1, …, stop - 1."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        """Number of samples in it; 0 if it is empty."""
        return self.stop - self.start


class DistributedRangeSplitter:
    """Maps ranks to samples; each query costs O(1), one for all ranks O(world_size).

    Args:
        total_samples: samples in the data set, at least 1.
        world_size: ranks, at least 1.

    Raises:
        ValueError: one of them is out of range.
    """

    @arguments(own_checks=True)
    def __init__(self, total_samples: int, world_size: int) -> None:
        validate_distributed_setup(total_samples, world_size)
        self.total_samples = int(total_samples)
        self.world_size = int(world_size)
        self._share, self._larger = divmod(self.total_samples, self.world_size)

    @arguments(own_checks=True)
    def get_rank_range(self, rank: int) -> RankRange:
        """Return the samples of one rank; may be empty.

        Raises:
            ValueError: there is no such rank.
        """
        rank = checked_rank(rank, self.world_size)
        return RankRange(self._start(rank), self._start(rank + 1))

    def get_all_ranges(self) -> list[RankRange]:
        """Return the samples of every rank, by rank."""
        return [self.get_rank_range(rank) for rank in range(self.world_size)]

    @arguments(own_checks=True)
    def get_rank_for_sample(self, sample_id: int) -> int:
        """Return the rank that has a sample.

        Raises:
            ValueError: there is no such sample.
        """
        last = self.total_samples - 1
        sample = whole_number("sample_id", sample_id, 0, last, rule="total_samples - 1")
        boundary = self._larger * (self._share + 1)
        if sample < boundary:
            return sample // (self._share + 1)
        return self._larger + (sample - boundary) // self._share

    @arguments(own_checks=True)
    def validate_ranges(self, ranges: Iterable[tuple[int, int]] | None = None) -> bool:
        """Check that `ranges` assign every sample to exactly one rank, in order.

        Args:
            ranges: (start, stop) by rank; default: this splitter's own.

        Returns:
            Always True: faults are raised.

        Raises:
            ValueError: a sample is missing or occurs twice, a range ends before it starts, or there are not
                `world_size` of them; the message gives the position.
        """
        given = list(self.get_all_ranges() if ranges is None else ranges)
        if len(given) != self.world_size:
            raise ArgumentError(
                f"there are {len(given)} ranges for {self.world_size} ranks", fix="expected one per rank"
            )
        expected = 0
        for rank, (start, stop) in enumerate(given):
            if stop < start:
                raise ArgumentError(f"the range of rank {rank} ends at {stop}, before its start {start}")
            if start != expected:
                what = "are in no range" if start > expected else "are in two ranges"
                low, high = sorted((start, expected))
                raise ArgumentError(
                    f"samples {low} to {high - 1} {what}", fix=f"rank {rank} must start at {expected}"
                )
            expected = stop
        if expected != self.total_samples:
            raise ArgumentError(f"the ranges end at {expected}, but there are {self.total_samples} samples")
        return True

    def _start(self, rank: int) -> int:
        return rank * self._share + min(rank, self._larger)


@arguments(own_checks=True)
def validate_distributed_setup(total_samples: int, world_size: int) -> bool:
    """Check that samples can be divided among ranks.

    Returns:
        Always True; problems are raised.

    Raises:
        ValueError: fewer than one sample or one rank, or not a whole number.
    """
    whole_number("total_samples", total_samples, 1)
    whole_number("world_size", world_size, 1)
    return True
