"""What the documents on augmentation define, computed from the definition of the seed."""

# ruff: noqa: S311 - numbers for augmentation are no secrets

from __future__ import annotations

import hashlib
import random

from torchdeck.compat.augmentation import AugmentationConfig, DistributedRangeSplitter

FIBONACCI = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]
NAMES = ("rotation", "brightness", "noise", "scale", "contrast")


def defined_seed(sample_id: int, rank: int, base_seed: int = 0, depth: int = 10) -> str:
    """The seed by its definition: SHA-256 of base seed, rank and sample, then of hash and Fibonacci."""
    seed = hashlib.sha256(f"{base_seed}:{rank}:{sample_id}".encode()).hexdigest()
    for number in FIBONACCI[:depth]:
        seed = hashlib.sha256((seed + str(number)).encode()).hexdigest()
    return seed


def defined_params(
    sample_id: int, rank: int, config: AugmentationConfig, base_seed: int = 0
) -> dict[str, float | str]:
    """Parameters of one sample by the definition."""
    seed = defined_seed(sample_id, rank, base_seed, config.augmentation_depth)
    generator = random.Random(int(seed, 16) % 2**32)
    drawn = {name: generator.uniform(*getattr(config, f"{name}_range")) for name in NAMES}
    return {**drawn, "hash": seed, "rank": rank}


def printed(splitter: DistributedRangeSplitter) -> list[str]:
    """A line for each rank, as the example prints it."""
    lines = []
    for rank in range(splitter.world_size):
        start, end = splitter.get_rank_range(rank)
        lines.append(
            f"Rank {rank}: samples {start}-{end - 1} ({end - start} samples)"
            if end > start
            else f"Rank {rank}: no samples assigned"
        )
    return lines
