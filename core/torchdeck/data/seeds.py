"""256 random bits for every sample: the same on every machine, any one in O(1), a range of them at once.

The bits of a sample are one block of Philox 4×64 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
3", SC 2011) with key (base_seed, epoch) and counter (sample_id, lane). Lane 0 is every rank's, where bits are
to depend on sample and epoch alone; where ranks are to differ, rank r has lane r + 1. Only raw bits are used,
so no numpy version changes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from torchdeck.data.checked import checked_rank, whole_number

Words = npt.NDArray[np.uint64]
"""256 bits a sample, shape (n, 4)."""

PIECE = 8192
"""Samples that are worked on at once, so that temporaries stay in the processor's cache."""

MAX_SEED = (1 << 64) - 1
MAX_ID = (1 << 63) - 1


class SeedStream:
    """The bits of every sample in one lane.

    Args:
        base_seed: 0 to 2⁶⁴ - 1.
        epoch: 0 to 2⁶⁴ - 1.
        lane: 0, or rank + 1.

    Raises:
        ValueError: one of them is out of range.
    """

    def __init__(self, base_seed: int, epoch: int, lane: int) -> None:
        key = (
            whole_number("base_seed", base_seed, 0, MAX_SEED, rule="2**64 - 1"),
            whole_number("epoch", epoch, 0, MAX_SEED, rule="2**64 - 1"),
        )
        self._key = np.array(key, dtype=np.uint64)
        self._lane = lane

    def words(self, first_id: int, count: int) -> Words:
        """The bits of samples first_id, first_id + 1, …, shape (count, 4).

        Raises:
            ValueError: an id is negative or above 2⁶³ - 1, or count is negative.
        """
        first_id = _checked_id(first_id)
        count = whole_number("count", count, 0, MAX_ID + 1 - first_id, rule="as many ids as there are")
        generator = self._generator(first_id)
        words = np.empty((count, 4), dtype=np.uint64)
        for start in range(0, count, PIECE):
            piece = words[start : start + PIECE]
            piece[:] = generator.random_raw(piece.size).reshape(piece.shape)
        return words

    def words_of(self, sample_ids: Iterable[int]) -> Words:
        """The bits of samples in any order, shape (n, 4); a range comes faster from `words`.

        Raises:
            ValueError: an id is negative or above 2⁶³ - 1.
        """
        ids = [_checked_id(sample) for sample in sample_ids]
        words = np.empty((len(ids), 4), dtype=np.uint64)
        generator = self._generator(0)
        # a third of the time that it takes to make a generator for each
        state: Any = generator.state
        for row, sample in enumerate(ids):
            state["state"]["counter"][0] = sample
            generator.state = state
            words[row] = generator.random_raw(4)
        return words

    def _generator(self, sample_id: int) -> np.random.Philox:
        # numpy counts up before it makes a block: this one's first block is that of counter sample_id + 1
        counter = np.array([sample_id, self._lane, 0, 0], dtype=np.uint64)
        return np.random.Philox(key=self._key, counter=counter)


class SampleSeedGenerator:
    """Bits that depend on base seed, epoch and sample alone: no change of world size changes them.

    Args:
        base_seed: 0 to 2⁶⁴ - 1.
        epoch: 0 to 2⁶⁴ - 1; another epoch has other bits.

    Raises:
        ValueError: one of them is out of range.
    """

    def __init__(self, base_seed: int, epoch: int = 0) -> None:
        self.base_seed, self.epoch = base_seed, epoch
        self.stream = SeedStream(base_seed, epoch, 0)

    def generate_seed(self, sample_id: int) -> str:
        """The bits of one sample as 64 hexadecimal digits, in O(1).

        Raises:
            ValueError: the id is negative or above 2⁶³ - 1.
        """
        return hexadecimal(self.stream.words(sample_id, 1))[0]


class RankAwareSeedGenerator:
    """Bits that are different for every rank, too: two ranks that see the same sample see it differently.

    They do not depend on the world size, which only says which ranks there are.

    Args:
        base_seed: 0 to 2⁶⁴ - 1.
        world_size: ranks, at least 1.
        epoch: 0 to 2⁶⁴ - 1; another epoch has other bits.

    Raises:
        ValueError: one of them is out of range.
    """

    def __init__(self, base_seed: int, world_size: int, *, epoch: int = 0) -> None:
        SeedStream(base_seed, epoch, 0)
        self.world_size = whole_number("world_size", world_size, 1)
        self.base_seed, self.epoch = base_seed, epoch

    def generate_seed(self, sample_id: int, rank: int) -> str:
        """The bits of one sample on one rank as 64 hexadecimal digits, in O(1).

        Raises:
            ValueError: there is no such rank, or the id is negative or above 2⁶³ - 1.
        """
        return hexadecimal(self.stream(rank).words(sample_id, 1))[0]

    def generate_seeds(self, first_id: int, count: int, rank: int) -> list[str]:
        """As `generate_seed`, of samples first_id, first_id + 1, …, `count` of them.

        Raises:
            ValueError: there is no such rank, an id is negative or above 2⁶³ - 1, or count is negative.
        """
        return hexadecimal(self.stream(rank).words(first_id, count))

    def stream(self, rank: int) -> SeedStream:
        """The bits of every sample on one rank.

        Raises:
            ValueError: there is no such rank.
        """
        return SeedStream(self.base_seed, self.epoch, checked_rank(rank, self.world_size) + 1)


def hexadecimal(words: Words) -> list[str]:
    """Each sample's bits as 64 hexadecimal digits."""
    digits = words.astype(">u8").tobytes().hex()
    return [digits[start : start + 64] for start in range(0, len(digits), 64)]


def _checked_id(sample_id: int) -> int:
    return whole_number("sample_id", sample_id, 0, MAX_ID, rule="2**63 - 1")
