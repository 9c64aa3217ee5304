"""Augmentation parameters by sample and rank, as Deterministic Procedural Augmentation (DPA) 0.2 draws them.

A data set that was augmented with it is continued with the same numbers. `torchdeck.data.Augmentation` is
much faster and also knows epochs, with numbers of its own. This package needs no torch.
"""

from torchdeck.compat.augmentation.config import AugmentationConfig, get_preset
from torchdeck.compat.augmentation.parameters import (
    AugmentationParams,
    RankAwareSeedGenerator,
    gen_distributed_augmentation_params,
    stream_distributed_augmentation_chain,
    stream_distributed_augmentation_range,
)
from torchdeck.compat.augmentation.ranges import DistributedRangeSplitter, RankRange

__all__ = [
    "AugmentationConfig",
    "AugmentationParams",
    "DistributedRangeSplitter",
    "RankAwareSeedGenerator",
    "RankRange",
    "gen_distributed_augmentation_params",
    "get_preset",
    "stream_distributed_augmentation_chain",
    "stream_distributed_augmentation_range",
]
