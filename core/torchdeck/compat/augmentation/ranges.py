"""Ranges of samples by rank: the library's, also of no samples."""

from __future__ import annotations

from typing import NamedTuple

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.data import redistribution as library
from torchdeck.data.checked import checked_rank, whole_number


class RankRange(NamedTuple):
    """Samples start_id, start_id + 1, …, end_id - 1 of one rank."""

    start_id: int
    end_id: int
    rank: int
    total_samples: int


class DistributedRangeSplitter:
    """Consecutive ranges of samples, one per rank; sizes differ by at most one, the larger ones come first.

    Args:
        total_samples: number of samples, at least 0.
        world_size: number of ranks, at least 1.

    Raises:
        ValueError: one of them is out of range.
    """

    @arguments(own_checks=True)
    def __init__(self, total_samples: int, world_size: int) -> None:
        self.total_samples = whole_number("total_samples", total_samples, 0)
        self.world_size = whole_number("world_size", world_size, 1)
        # the library's has at least one sample
        self._splitter = (
            library.DistributedRangeSplitter(self.total_samples, self.world_size) if total_samples else None
        )

    @arguments(own_checks=True)
    def get_rank_range(self, rank: int) -> tuple[int, int]:
        """Return start and end of one rank's samples; the same if it has none.

        Raises:
            ValueError: there is no such rank.
        """
        rank = checked_rank(rank, self.world_size)
        if self._splitter is None:
            return 0, 0
        start, end = self._splitter.get_rank_range(rank)
        return start, end

    def get_all_ranges(self) -> list[tuple[int, int]]:
        """Return start and end of every rank's samples, by rank."""
        return [self.get_rank_range(rank) for rank in range(self.world_size)]

    def get_all_rank_ranges(self) -> list[RankRange]:
        """Return every rank's samples, by rank."""
        return [
            RankRange(start, end, rank, self.total_samples)
            for rank, (start, end) in enumerate(self.get_all_ranges())
        ]

    @arguments(own_checks=True)
    def get_rank_for_sample(self, sample_id: int) -> int:
        """Return the rank that has a sample.

        Raises:
            ValueError: there is no such sample.
        """
        if self._splitter is None:
            raise ValueError(f"there is no sample {sample_id}: total_samples is 0")
        return self._splitter.get_rank_for_sample(sample_id)

    def validate_ranges(self) -> bool:
        """Check that the ranges assign every sample to exactly one rank.

        Returns:
            Always True; faults are raised.

        Raises:
            ValueError: a sample is missing or occurs twice.
        """
        return self._splitter is None or self._splitter.validate_ranges()
