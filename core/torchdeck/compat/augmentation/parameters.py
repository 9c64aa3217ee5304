"""Seeds and parameters of one sample on one rank, one at a time or as a stream.

The seed is a chain of SHA-256 hashes in hexadecimal: first of the text "BASE_SEED:RANK:SAMPLE_ID", then, for
each round i from 0 to depth - 1, of the previous hash followed by the i-th Fibonacci number in decimal. Its
lowest 32 bits seed Python's Mersenne Twister, which draws the five parameters in the order of
`AUGMENTATIONS`. The world size only limits the rank. Source: DPA 0.2.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from typing import TypedDict

from torchdeck.compat.augmentation.config import AugmentationConfig
from torchdeck.compat.augmentation.ranges import DistributedRangeSplitter
from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.data.checked import checked_rank, whole_number

_SEED_BITS = 32


class AugmentationParams(TypedDict):
    """The augmentation of one sample."""

    rotation: float
    brightness: float
    noise: float
    scale: float
    contrast: float
    hash: str
    """The seed, 64 hexadecimal digits."""
    rank: int


class RankAwareSeedGenerator:
    """Seeds that differ between ranks.

    Args:
        base_seed: at least 0.
        world_size: number of ranks, at least 1; it has no effect on the seeds.

    Raises:
        ValueError: an argument is out of range.
    """

    @arguments(own_checks=True)
    def __init__(self, base_seed: int = 0, world_size: int = 1) -> None:
        self.base_seed = whole_number("base_seed", base_seed, 0)
        self.world_size = whole_number("world_size", world_size, 1)

    @arguments(own_checks=True)
    def generate_seed(self, sample_id: int, rank: int, augmentation_depth: int = 10) -> str:
        """Return the seed of one sample on one rank, 64 hexadecimal digits.

        Raises:
            ValueError: an argument is out of range, such as a rank that does not exist.
        """
        sample_id = whole_number("sample_id", sample_id, 0)
        rank = checked_rank(rank, self.world_size)
        digest = _sha256(f"{self.base_seed}:{rank}:{sample_id}")
        current, following = 0, 1
        for _ in range(whole_number("augmentation_depth", augmentation_depth, 1)):
            digest = _sha256(f"{digest}{current}")
            current, following = following, current + following
        return digest


@arguments(own_checks=True)
def gen_distributed_augmentation_params(
    sample_id: int,
    rank: int,
    config: AugmentationConfig | None = None,
    base_seed: int = 0,
    world_size: int = 1,
) -> AugmentationParams:
    """Return the parameters of one sample on one rank.

    Args:
        sample_id: at least 0.
        rank: 0 to world_size - 1.
        config: ranges and depth. Default: `AugmentationConfig()`.
        base_seed: at least 0.
        world_size: number of ranks.

    Raises:
        ValueError: an argument is out of range; the message gives the limits.
    """
    config = config or AugmentationConfig()
    seed = RankAwareSeedGenerator(base_seed, world_size).generate_seed(
        sample_id, rank, config.augmentation_depth
    )
    draw = random.Random(int(seed, 16) % (1 << _SEED_BITS)).uniform  # noqa: S311 - augmentation, no secret
    return {
        "rotation": draw(*config.rotation_range),
        "brightness": draw(*config.brightness_range),
        "noise": draw(*config.noise_range),
        "scale": draw(*config.scale_range),
        "contrast": draw(*config.contrast_range),
        "hash": seed,
        "rank": int(rank),
    }


@arguments()
def stream_distributed_augmentation_chain(
    num_samples: int,
    rank: int,
    world_size: int,
    config: AugmentationConfig | None = None,
    chunk_size: int = 1000,
    base_seed: int = 0,
) -> Iterator[AugmentationParams]:
    """Yield the parameters of each sample in the rank's range of `DistributedRangeSplitter`.

    Args:
        num_samples: number of samples of all ranks; may be 0.
        rank: 0 to world_size - 1.
        world_size: number of ranks.
        config: ranges and depth. Default: `AugmentationConfig()`.
        chunk_size: at least 1; parameters are made one by one, so it changes nothing.
        base_seed: at least 0.

    Raises:
        ValueError: an argument is out of range; raised before anything is generated.
    """
    start, end = DistributedRangeSplitter(num_samples, world_size).get_rank_range(rank)
    return stream_distributed_augmentation_range(
        start, end, rank, world_size, config, chunk_size=chunk_size, base_seed=base_seed
    )


@arguments()
def stream_distributed_augmentation_range(
    start_id: int,
    end_id: int,
    rank: int,
    world_size: int,
    config: AugmentationConfig | None = None,
    base_seed: int = 0,
    chunk_size: int | None = None,
) -> Iterator[AugmentationParams]:
    """Yield the parameters of samples start_id, start_id + 1, …, end_id - 1 on one rank.

    Args:
        start_id: at least 0.
        end_id: at least start_id.
        rank: 0 to world_size - 1.
        world_size: number of ranks.
        config: ranges and depth. Default: `AugmentationConfig()`.
        base_seed: at least 0.
        chunk_size: see `stream_distributed_augmentation_chain`.

    Raises:
        ValueError: an argument is out of range; raised before anything is generated.
    """
    start = whole_number("start_id", start_id, 0)
    end = whole_number("end_id", end_id, start)
    whole_number("base_seed", base_seed, 0)
    if chunk_size is not None:
        whole_number("chunk_size", chunk_size, 1)
    rank = checked_rank(rank, world_size)
    return (
        gen_distributed_augmentation_params(sample, rank, config, base_seed, world_size)
        for sample in range(start, end)
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
