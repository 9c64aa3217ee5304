"""Assignment of samples to ranks: numpy only, the same code in the preview and in the ranks.

Names are resolved on first use, so that using one submodule does not import all.
"""

from __future__ import annotations

from torchdeck.data.lazy_names import lazy_names

_BATCH_PLAN = "torchdeck.data.batch_plan"

HOMES = {
    "Augmentation": "torchdeck.data.augmentation",
    "AugmentationChunk": "torchdeck.data.augmentation",
    "AugmentationConfig": "torchdeck.data.augmentation_config",
    "AugmentationParams": "torchdeck.data.augmentation",
    "BatchPlan": _BATCH_PLAN,
    "BatchPlanError": _BATCH_PLAN,
    "CheckpointPosition": "torchdeck.data.checkpoint_position",
    "DistributedBatchIterator": "torchdeck.data.batch_iterator",
    "DistributedRangeSplitter": "torchdeck.data.redistribution",
    "DistributedSampler": "torchdeck.data.sampler",
    "Microbatch": _BATCH_PLAN,
    "PlanPosition": _BATCH_PLAN,
    "PlannedStep": _BATCH_PLAN,
    "Position": "torchdeck.data.order",
    "PositionError": "torchdeck.data.order",
    "RankAwareSeedGenerator": "torchdeck.data.augmentation",
    "RankRange": "torchdeck.data.redistribution",
    "Redistribution": "torchdeck.data.redistribution",
    "SampleOrder": "torchdeck.data.order",
    "SampleSeedGenerator": "torchdeck.data.augmentation",
    "ShardStats": _BATCH_PLAN,
    "build_batch_plan": _BATCH_PLAN,
    "compute_shard_stats": _BATCH_PLAN,
    "gen_distributed_augmentation_params": "torchdeck.data.augmentation",
    "get_preset": "torchdeck.data.augmentation_config",
    "global_batches": "torchdeck.data.order",
    "interleave_microbatches": _BATCH_PLAN,
    "iter_from_checkpoint": "torchdeck.data.checkpoint_position",
    "load_batch_plan": _BATCH_PLAN,
    "load_checkpoint_position": "torchdeck.data.checkpoint_position",
    "plan_steps": _BATCH_PLAN,
    "redistribution_report": "torchdeck.data.redistribution",
    "save_batch_plan": _BATCH_PLAN,
    "save_checkpoint_position": "torchdeck.data.checkpoint_position",
    "shard_batch_plan": _BATCH_PLAN,
    "stream_distributed_augmentation_chain": "torchdeck.data.augmentation",
    "validate_distributed_setup": "torchdeck.data.redistribution",
}
"""Public name → its module; all of these can be imported from `torchdeck.distributed`, too."""

__getattr__, __dir__ = lazy_names(__name__, HOMES)
