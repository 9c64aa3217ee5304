"""Consecutive ranges of samples, one per rank: sizes differ by at most one, the larger ones come first.

With n samples over W ranks, n = q·W + r: the first r ranks have q + 1 samples, the others q. For example, 23
over 4 are 6, 6, 6, 5. If there are more ranks than samples, the last ranks have empty ranges.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from torchdeck.data.checked import checked_rank, whole_number


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

    def __init__(self, total_samples: int, world_size: int) -> None:
        validate_distributed_setup(total_samples, world_size)
        self.total_samples = int(total_samples)
        self.world_size = int(world_size)
        self._share, self._larger = divmod(self.total_samples, self.world_size)

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
            raise ValueError(
                f"there are {len(given)} ranges for {self.world_size} ranks: right is one a rank"
            )
        expected = 0
        for rank, (start, stop) in enumerate(given):
            if stop < start:
                raise ValueError(f"the range of rank {rank} ends at {stop}, before its start {start}")
            if start != expected:
                what = "are in no range" if start > expected else "are in two ranges"
                low, high = sorted((start, expected))
                raise ValueError(f"samples {low} to {high - 1} {what}: rank {rank} must start at {expected}")
            expected = stop
        if expected != self.total_samples:
            raise ValueError(f"the ranges end at {expected}, but there are {self.total_samples} samples")
        return True

    def _start(self, rank: int) -> int:
        return rank * self._share + min(rank, self._larger)


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
