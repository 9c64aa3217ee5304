"""Augmentation parameters from seeds: the same numbers on every machine, for one sample or a million."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from torchdeck.data.augmentation_config import AUGMENTATIONS, NEUTRAL, AugmentationConfig
from torchdeck.data.checked import checked_rank, whole_number
from torchdeck.data.order import Ids
from torchdeck.data.ranges import DistributedRangeSplitter
from torchdeck.data.seeds import PIECE, RankAwareSeedGenerator, SampleSeedGenerator, Words, hexadecimal

Mode = Literal["rank", "sample"]
"""What parameters depend on besides seed, epoch and sample: the rank; or nothing, so that world size changes
nothing."""

Column = npt.NDArray[np.float64]

_UNIT = 2.0**-32


class AugmentationParams(NamedTuple):
    """What is done to one sample."""

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
    """The seeds they are made from, shape (n, 4)."""

    def __len__(self) -> int:
        return len(self.sample_ids)

    def __getitem__(self, index: int) -> AugmentationParams:
        """The parameters of the sample at `index` of the chunk."""
        return AugmentationParams(*(float(column[index]) for column in self.columns))

    @property
    def columns(self) -> tuple[Column, ...]:
        """The five columns, as in AugmentationParams."""
        return (self.rotation, self.brightness, self.noise, self.scale, self.contrast)

    @property
    def seeds(self) -> list[str]:
        """Each sample's seed, 64 hexadecimal digits; for what else is random about it, as the noise."""
        return hexadecimal(self.words)


class Augmentation:
    """The parameters of any sample, for one rank.

    Args:
        config: ranges and depth.
        base_seed: 0 to 2⁶⁴ - 1.
        mode: whether ranks differ.
        rank: this rank; in mode "sample" it changes nothing.
        world_size: ranks.
        epoch: another epoch has other parameters.

    Raises:
        ValueError: one of them is out of range.
    """

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
        if mode not in get_args(Mode):
            raise ValueError(f"mode is {mode!r}: right is {' or '.join(map(repr, get_args(Mode)))}")
        self.config = config
        self.mode = mode
        self.rank = checked_rank(rank, world_size)
        by_rank = RankAwareSeedGenerator(base_seed, world_size, epoch=epoch)
        by_sample = SampleSeedGenerator(base_seed, epoch)
        self._seeds = by_rank.stream(rank) if mode == "rank" else by_sample.stream

    def one(self, sample_id: int) -> AugmentationParams:
        """The parameters of one sample, in O(1).

        Raises:
            ValueError: the id is negative or above 2⁶³ - 1.
        """
        return self.range(sample_id, 1)[0]

    def range(self, first_id: int, count: int) -> AugmentationChunk:
        """The parameters of samples first_id, first_id + 1, …, `count` of them.

        Raises:
            ValueError: an id is negative or above 2⁶³ - 1, or count is negative.
        """
        words = self._seeds.words(first_id, count)
        return _chunk(first_id + np.arange(count, dtype=np.int64), words, self.config)

    def many(self, sample_ids: Sequence[int] | Ids) -> AugmentationChunk:
        """The parameters of samples in any order; those of a range come faster from `range`.

        Raises:
            ValueError: an id is negative or above 2⁶³ - 1.
        """
        words = self._seeds.words_of(sample_ids)
        return _chunk(np.asarray(sample_ids, dtype=np.int64), words, self.config)


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
    """The parameters of one sample on one rank, in O(1): those `stream_distributed_augmentation_chain` gives.

    Args:
        sample_id: from 0.
        rank: 0 to world_size - 1.
        config: ranges and depth.
        base_seed: 0 to 2⁶⁴ - 1.
        world_size: ranks.
        mode: "rank" makes ranks differ; "sample" depends on base_seed, epoch and sample_id alone.
        epoch: from 0.

    Raises:
        ValueError: one of them is out of range; the message says the rule.
    """
    source = Augmentation(config, base_seed, mode=mode, rank=rank, world_size=world_size, epoch=epoch)
    return source.one(sample_id)


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
    """The parameters of all samples of one rank (its range of `DistributedRangeSplitter`), chunk after chunk.

    Memory depends on `chunk_size` alone. The last chunk may be smaller; a rank without samples gets none.

    Args:
        num_samples: samples of all ranks together, at least 1.
        rank: 0 to world_size - 1.
        world_size: ranks.
        config: ranges and depth.
        chunk_size: samples of a chunk, at least 1.
        base_seed: 0 to 2⁶⁴ - 1.
        mode: "rank" makes ranks differ; "sample" depends on base_seed, epoch and sample id alone.
        epoch: from 0.

    Raises:
        ValueError: one of them is out of range; the message says the rule, before anything is generated.
    """
    start, stop = DistributedRangeSplitter(num_samples, world_size).get_rank_range(rank)
    chunk_size = whole_number("chunk_size", chunk_size, 1)
    source = Augmentation(config, base_seed, mode=mode, rank=rank, world_size=world_size, epoch=epoch)
    return (source.range(first, min(chunk_size, stop - first)) for first in range(start, stop, chunk_size))


def _chunk(sample_ids: Ids, words: Words, config: AugmentationConfig) -> AugmentationChunk:
    """Draw from the words, piece by piece: what is in the processor's cache is several times faster."""
    columns = np.empty((len(AUGMENTATIONS), len(words)), dtype=np.float64)
    for start in range(0, len(words), PIECE):
        _draw(words[start : start + PIECE], config, columns[:, start : start + PIECE])
    rotation, brightness, noise, scale, contrast = columns
    return AugmentationChunk(sample_ids, rotation, brightness, noise, scale, contrast, words)


def _draw(words: Words, config: AugmentationConfig, columns: Column) -> None:
    """Of each sample's bits 32 for every augmentation, and 32 for the choice of those that are applied."""
    draws = words.astype("<u8", copy=False).view("<u4").T
    neutral = _left_out(draws[len(AUGMENTATIONS)], config.augmentation_depth)
    for number, name in enumerate(AUGMENTATIONS):
        low, high = config.range_of(name)
        np.multiply(draws[number], (high - low) * _UNIT, out=columns[number])
        columns[number] += low
        if neutral is not None:
            np.copyto(columns[number], NEUTRAL[name], where=(neutral & np.uint8(1 << number)) != 0)


def _left_out(draws: npt.NDArray[np.uint32], depth: int) -> npt.NDArray[np.uint8] | None:
    """For each draw one choice, all equally likely, of augmentations that are not applied: bit k is the k-th.

    None where all are applied.
    """
    if depth == len(AUGMENTATIONS):
        return None
    bits = [1 << number for number in range(len(AUGMENTATIONS))]
    choices = np.array([sum(left) for left in itertools.combinations(bits, len(bits) - depth)], np.uint8)
    picked = (draws.astype(np.int64) * len(choices)) >> 32
    return choices.take(picked)
