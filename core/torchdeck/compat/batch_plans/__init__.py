"""Batch plans: this rank, its shard of a plan, and its position. It needs no torch.

`load_batch_plan` is in `torchdeck.data`.
"""

from torchdeck.compat.batch_plans.checkpoint import (
    CheckpointPosition,
    iter_from_checkpoint,
    load_checkpoint_position,
    save_checkpoint_position,
)
from torchdeck.compat.batch_plans.ranks import DistributedConfig, get_rank, get_world_size, is_main_process
from torchdeck.compat.batch_plans.sharding import (
    compute_shard_stats,
    interleave_microbatches,
    shard_batch_plan,
)

__all__ = [
    "CheckpointPosition",
    "DistributedConfig",
    "compute_shard_stats",
    "get_rank",
    "get_world_size",
    "interleave_microbatches",
    "is_main_process",
    "iter_from_checkpoint",
    "load_checkpoint_position",
    "save_checkpoint_position",
    "shard_batch_plan",
]
