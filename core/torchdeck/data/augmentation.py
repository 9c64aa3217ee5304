"""Augmentation parameters from seeds: the same numbers on every machine, for one sample or a million."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.data.augmentation_config import AUGMENTATIONS, NEUTRAL, AugmentationConfig
from torchdeck.data.checked import checked_rank, whole_number
from torchdeck.data.order import Ids
from torchdeck.data.redistribution import DistributedRangeSplitter

# 256 random bits for every sample: the same on every machine, any one in O(1), a range of them at once. The
# bits of a sample are one block of Philox 4×64 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
# SC 2011) with key (base_seed, epoch) and counter (sample_id, lane). Lane 0 is shared by all ranks, if bits
# are to depend on sample and epoch alone; if ranks are to differ, rank r has lane r + 1. Only raw bits are
# used, so no numpy version changes them.

Words = npt.NDArray[np.uint64]
"""256 bits per sample, shape (n, 4)."""

PIECE = 8192
"""Samples processed at once, so that temporaries stay in the processor's cache."""

MAX_SEED = (1 << 64) - 1
MAX_ID = (1 << 63) - 1


class SeedStream:
    """Bits of every sample in one lane.

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
        """Return the bits of samples first_id, first_id + 1, …, shape (count, 4).

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
        """Return the bits of samples in any order, shape (n, 4); a range is faster by `words`.

        Raises:
            ValueError: an id is negative or above 2⁶³ - 1.
        """
        ids = [_checked_id(sample) for sample in sample_ids]
        words = np.empty((len(ids), 4), dtype=np.uint64)
        generator = self._generator(0)
        # takes a third of the time of making a generator for each
        state: Any = generator.state
        for row, sample in enumerate(ids):
            state["state"]["counter"][0] = sample
            generator.state = state
            words[row] = generator.random_raw(4)
        return words

    def _generator(self, sample_id: int) -> np.random.Philox:
        # numpy increments the counter before it makes a block: this one's first block is that of counter
        # sample_id + 1
        counter = np.array([sample_id, self._lane, 0, 0], dtype=np.uint64)
        return np.random.Philox(key=self._key, counter=counter)


class SampleSeedGenerator:
    """Seeds that depend only on base seed, epoch and sample, so they are the same at any world size.

    Args:
        base_seed: 0 to 2⁶⁴ - 1.
        epoch: 0 to 2⁶⁴ - 1; each epoch has other seeds.

    Raises:
        ValueError: an argument is out of range.
    """

    @arguments(own_checks=True)
    def __init__(self, base_seed: int, epoch: int = 0) -> None:
        self.base_seed, self.epoch = base_seed, epoch
        self.stream = SeedStream(base_seed, epoch, 0)

    @arguments(own_checks=True)
    def generate_seed(self, sample_id: int) -> str:
        """Return the seed of one sample, 64 hexadecimal digits, in O(1).

        Raises:
            ValueError: the id is negative or above 2⁶³ - 1.
        """
        return hexadecimal(self.stream.words(sample_id, 1))[0]


class RankAwareSeedGenerator:
    """Seeds that differ between ranks: two ranks with the same sample draw different numbers.

    The seeds do not depend on the world size, which only limits the rank.

    Args:
        base_seed: 0 to 2⁶⁴ - 1.
        world_size: number of ranks, at least 1.
        epoch: 0 to 2⁶⁴ - 1; each epoch has other seeds.

    Raises:
        ValueError: an argument is out of range.
    """

    @arguments(own_checks=True)
    def __init__(self, base_seed: int, world_size: int, *, epoch: int = 0) -> None:
        SeedStream(base_seed, epoch, 0)
        self.world_size = whole_number("world_size", world_size, 1)
        self.base_seed, self.epoch = base_seed, epoch

    @arguments(own_checks=True)
    def generate_seed(self, sample_id: int, rank: int) -> str:
        """Return the seed of one sample on one rank, 64 hexadecimal digits, in O(1).

        Raises:
            ValueError: the rank does not exist, or the id is negative or above 2⁶³ - 1.
        """
        return hexadecimal(self.stream(rank).words(sample_id, 1))[0]

    @arguments(own_checks=True)
    def generate_seeds(self, first_id: int, count: int, rank: int) -> list[str]:
        """Return the seeds of `count` consecutive samples, from first_id on, on one rank.

        Raises:
            ValueError: the rank does not exist, an id is negative or above 2⁶³ - 1, or count is negative.
        """
        return hexadecimal(self.stream(rank).words(first_id, count))

    @arguments(own_checks=True)
    def stream(self, rank: int) -> SeedStream:
        """Return the random stream of one rank, for every sample.

        Raises:
            ValueError: the rank does not exist.
        """
        return SeedStream(self.base_seed, self.epoch, checked_rank(rank, self.world_size) + 1)


def hexadecimal(words: Words) -> list[str]:
    """Return each sample's bits as 64 hexadecimal digits."""
    digits = words.astype(">u8").tobytes().hex()
    return [digits[start : start + 64] for start in range(0, len(digits), 64)]


def _checked_id(sample_id: int) -> int:
    return whole_number("sample_id", sample_id, 0, MAX_ID, rule="2**63 - 1")


Mode = Literal["rank", "sample"]
"""Inputs of parameters besides seed, epoch and sample: the rank; or none, so that world size changes nothing.
"""

Column = npt.NDArray[np.float64]

_UNIT = 2.0**-32


class AugmentationParams(NamedTuple):
    """The augmentation of one sample."""

    rotation: float
    """Degrees, counter-clockwise."""
    brightness: float
    """Factor."""
    noise: float
    """Standard deviation, in units of the value range."""
    scale: float
    """Factor."""
    contrast: float
    """Factor on the distance from the mean."""


@dataclass(frozen=True)
class AugmentationChunk:
    """Parameters of n samples in columns, each of shape (n,)."""

    sample_ids: Ids
    rotation: Column
    brightness: Column
    noise: Column
    scale: Column
    contrast: Column
    words: Words
    """The seeds from which the parameters are computed, shape (n, 4)."""

    def __len__(self) -> int:
        return len(self.sample_ids)

    def __getitem__(self, index: int) -> AugmentationParams:
        """Return the parameters of the sample at `index` of the chunk."""
        return AugmentationParams(*(float(column[index]) for column in self.columns))

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the five columns, as in AugmentationParams."""
        return (self.rotation, self.brightness, self.noise, self.scale, self.contrast)

    @property
    def seeds(self) -> list[str]:
        """The seed of each sample, 64 hexadecimal digits, for further random numbers such as the noise."""
        return hexadecimal(self.words)


class Augmentation:
    """Augmentation parameters of any sample, for one rank.

    Args:
        config: ranges and depth.
        base_seed: 0 to 2⁶⁴ - 1.
        mode: "sample" or "rank"; whether ranks differ.
        rank: this rank; it has no effect in mode "sample".
        world_size: number of ranks.
        epoch: each epoch has other parameters.

    Raises:
        ValueError: an argument is out of range.
    """

    @arguments()
    def __init__(
        self,
        config: AugmentationConfig,
        base_seed: int = 0,
        *,
        mode: Mode = "rank",
        rank: int = 0,
        world_size: int = 1,
        epoch: int = 0,
    ) -> None:
        self.config = config
        self.mode = mode
        self.rank = checked_rank(rank, world_size)
        by_rank = RankAwareSeedGenerator(base_seed, world_size, epoch=epoch)
        by_sample = SampleSeedGenerator(base_seed, epoch)
        self._seeds = by_rank.stream(rank) if mode == "rank" else by_sample.stream

    @arguments(own_checks=True)
    def one(self, sample_id: int) -> AugmentationParams:
        """Return the parameters of one sample, in O(1).

        Raises:
            ValueError: the id is negative or above 2⁶³ - 1.
        """
        return self.range(sample_id, 1)[0]

    @arguments(own_checks=True)
    def range(self, first_id: int, count: int) -> AugmentationChunk:
        """Return the parameters of `count` consecutive samples, from first_id on.

        Raises:
            ValueError: an id is negative or above 2⁶³ - 1, or count is negative.
        """
        words = self._seeds.words(first_id, count)
        return _chunk(first_id + np.arange(count, dtype=np.int64), words, self.config)

    @arguments(own_checks=True)
    def many(self, sample_ids: Sequence[int] | Ids) -> AugmentationChunk:
        """Return the parameters of samples in any order. For consecutive ids `range` is faster.

        Raises:
            ValueError: an id is negative or above 2⁶³ - 1.
        """
        words = self._seeds.words_of(sample_ids)
        return _chunk(np.asarray(sample_ids, dtype=np.int64), words, self.config)


@arguments(own_checks=True)
def gen_distributed_augmentation_params(
    sample_id: int,
    rank: int,
    config: AugmentationConfig,
    base_seed: int = 0,
    world_size: int = 1,
    *,
    mode: Mode = "rank",
    epoch: int = 0,
) -> AugmentationParams:
    """Return the parameters of one sample on one rank, in O(1), as `stream_distributed_augmentation_chain`
    yields them.

    Args:
        sample_id: from 0.
        rank: 0 to world_size - 1.
        config: ranges and depth.
        base_seed: 0 to 2⁶⁴ - 1.
        world_size: number of ranks.
        mode: "rank": ranks differ; "sample": only base_seed, epoch and sample_id count.
        epoch: from 0.

    Raises:
        ValueError: an argument is out of range; the message gives the limits.
    """
    source = Augmentation(config, base_seed, mode=mode, rank=rank, world_size=world_size, epoch=epoch)
    return source.one(sample_id)


@arguments(own_checks=True)
def stream_distributed_augmentation_chain(
    num_samples: int,
    rank: int,
    world_size: int,
    config: AugmentationConfig,
    chunk_size: int = 65536,
    base_seed: int = 0,
    *,
    mode: Mode = "rank",
    epoch: int = 0,
) -> Iterator[AugmentationChunk]:
    """Yield the parameters of all samples of one rank (its range of `DistributedRangeSplitter`), in chunks.

    Memory depends only on `chunk_size`. The last chunk may be smaller; a rank without samples gets none.

    Args:
        num_samples: number of samples of all ranks, at least 1.
        rank: 0 to world_size - 1.
        world_size: number of ranks.
        config: ranges and depth.
        chunk_size: samples per chunk, at least 1.
        base_seed: 0 to 2⁶⁴ - 1.
        mode: "rank": ranks differ; "sample": only base_seed, epoch and sample id count.
        epoch: from 0.

    Raises:
        ValueError: an argument is out of range; raised before anything is generated.
    """
    start, stop = DistributedRangeSplitter(num_samples, world_size).get_rank_range(rank)
    chunk_size = whole_number("chunk_size", chunk_size, 1)
    source = Augmentation(config, base_seed, mode=mode, rank=rank, world_size=world_size, epoch=epoch)
    return (source.range(first, min(chunk_size, stop - first)) for first in range(start, stop, chunk_size))


def _chunk(sample_ids: Ids, words: Words, config: AugmentationConfig) -> AugmentationChunk:
    """Draw from the words in pieces that fit the processor's cache, which is several times faster."""
    columns = np.empty((len(AUGMENTATIONS), len(words)), dtype=np.float64)
    for start in range(0, len(words), PIECE):
        _draw(words[start : start + PIECE], config, columns[:, start : start + PIECE])
    rotation, brightness, noise, scale, contrast = columns
    return AugmentationChunk(sample_ids, rotation, brightness, noise, scale, contrast, words)


def _draw(words: Words, config: AugmentationConfig, columns: Column) -> None:
    """Split each sample's bits: 32 for every augmentation, and 32 for the choice of those that are
    applied.
    """
    draws = words.astype("<u8", copy=False).view("<u4").T
    neutral = _left_out(draws[len(AUGMENTATIONS)], config.augmentation_depth)
    for number, name in enumerate(AUGMENTATIONS):
        low, high = config.range_of(name)
        np.multiply(draws[number], (high - low) * _UNIT, out=columns[number])
        columns[number] += low
        if neutral is not None:
            np.copyto(columns[number], NEUTRAL[name], where=(neutral & np.uint8(1 << number)) != 0)


def _left_out(draws: npt.NDArray[np.uint32], depth: int) -> npt.NDArray[np.uint8] | None:
    """Return one equally likely choice per draw of augmentations that are not applied: bit k is the k-th.

    None if all are applied.
    """
    if depth == len(AUGMENTATIONS):
        return None
    bits = [1 << number for number in range(len(AUGMENTATIONS))]
    choices = np.array([sum(left) for left in itertools.combinations(bits, len(bits) - depth)], np.uint8)
    picked = (draws.astype(np.int64) * len(choices)) >> 32
    return choices.take(picked)
