"""A process that counts the parameters of its rank: the target of `multiprocessing.Process`."""

from __future__ import annotations

from multiprocessing import Queue
from typing import Any

from torchdeck.compat.augmentation import AugmentationConfig, stream_distributed_augmentation_chain


def count_samples(
    rank: int, world_size: int, total_samples: int, values: dict[str, Any], results: Queue[dict[str, int]]
) -> None:
    """One process: the configuration again, and how many samples its stream has."""
    config = AugmentationConfig(**values)
    stream = stream_distributed_augmentation_chain(
        num_samples=total_samples, rank=rank, world_size=world_size, config=config
    )
    results.put({"rank": rank, "processed": sum(1 for _ in stream)})
