"""Assignment of samples to ranks: numpy only, the same code in the preview and in the ranks.

Names are resolved on first use, so that using one submodule does not import all.
"""

from __future__ import annotations

from torchdeck.data.lazy_names import lazy_names, with_names

TYPE_CHECKING = False  # what type checkers take for typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from torchdeck.data.augmentation import (
        Augmentation,
        AugmentationChunk,
        AugmentationParams,
        RankAwareSeedGenerator,
        SampleSeedGenerator,
        gen_distributed_augmentation_params,
        stream_distributed_augmentation_chain,
    )
    from torchdeck.data.augmentation_config import AugmentationConfig, get_preset
    from torchdeck.data.batch_iterator import DistributedBatchIterator
    from torchdeck.data.batch_plan import (
        BatchPlan,
        BatchPlanError,
        Microbatch,
        PlannedStep,
        PlanPosition,
        ShardStats,
        build_batch_plan,
        compute_shard_stats,
        interleave_microbatches,
        load_batch_plan,
        plan_steps,
        save_batch_plan,
        shard_batch_plan,
    )
    from torchdeck.data.checkpoint_position import (
        CheckpointPosition,
        iter_from_checkpoint,
        load_checkpoint_position,
        save_checkpoint_position,
    )
    from torchdeck.data.order import Position, PositionError, SampleOrder, global_batches
    from torchdeck.data.redistribution import (
        DistributedRangeSplitter,
        RankRange,
        Redistribution,
        redistribution_report,
        validate_distributed_setup,
    )
    from torchdeck.data.sampler import DistributedSampler

# for type checkers and `import *`; tests/data/test_public_names.py compares it with NAMES and the imports
__all__ = [
    "Augmentation",
    "AugmentationChunk",
    "AugmentationConfig",
    "AugmentationParams",
    "BatchPlan",
    "BatchPlanError",
    "CheckpointPosition",
    "DistributedBatchIterator",
    "DistributedRangeSplitter",
    "DistributedSampler",
    "Microbatch",
    "PlanPosition",
    "PlannedStep",
    "Position",
    "PositionError",
    "RankAwareSeedGenerator",
    "RankRange",
    "Redistribution",
    "SampleOrder",
    "SampleSeedGenerator",
    "ShardStats",
    "build_batch_plan",
    "compute_shard_stats",
    "gen_distributed_augmentation_params",
    "get_preset",
    "global_batches",
    "interleave_microbatches",
    "iter_from_checkpoint",
    "load_batch_plan",
    "load_checkpoint_position",
    "plan_steps",
    "redistribution_report",
    "save_batch_plan",
    "save_checkpoint_position",
    "shard_batch_plan",
    "stream_distributed_augmentation_chain",
    "validate_distributed_setup",
]

_PLANS = "torchdeck.data.batch_plan"
_AUGMENTATION = "torchdeck.data.augmentation"
_POSITION = "torchdeck.data.checkpoint_position"
_ORDER = "torchdeck.data.order"
_RANGES = "torchdeck.data.redistribution"

NAMES = {
    "Augmentation": (_AUGMENTATION, "augmentation parameters of any sample, for one rank"),
    "AugmentationChunk": (_AUGMENTATION, "parameters of many samples, in columns"),
    "AugmentationConfig": ("torchdeck.data.augmentation_config", "ranges of the augmentation parameters"),
    "AugmentationParams": (_AUGMENTATION, "augmentation parameters of one sample"),
    "BatchPlan": (_PLANS, "precomputed schedule of microbatches"),
    "BatchPlanError": (_PLANS, "a batch plan cannot be built, read, written or sharded"),
    "CheckpointPosition": (_POSITION, "position of one rank in a batch plan"),
    "DistributedBatchIterator": ("torchdeck.data.batch_iterator", "batches of one rank, epoch by epoch"),
    "DistributedRangeSplitter": (_RANGES, "consecutive samples of each rank"),
    "DistributedSampler": ("torchdeck.data.sampler", "samples of one rank, as torch's sampler has them"),
    "Microbatch": (_PLANS, "samples of one forward and backward pass"),
    "PlanPosition": (_PLANS, "position in a batch plan, valid at any world size"),
    "PlannedStep": (_PLANS, "microbatches of one optimizer step"),
    "Position": (_ORDER, "position in the data, valid at any world size"),
    "PositionError": (_ORDER, "a position is invalid, or of another data set"),
    "RankAwareSeedGenerator": (_AUGMENTATION, "seeds that differ between ranks"),
    "RankRange": (_RANGES, "range of samples of one rank"),
    "Redistribution": (_RANGES, "ranks of all samples before and after a change of world size"),
    "SampleOrder": (_ORDER, "permutation of every epoch of a data set"),
    "SampleSeedGenerator": (_AUGMENTATION, "seeds that are the same at any world size"),
    "ShardStats": (_PLANS, "size of each rank's part of a batch plan"),
    "build_batch_plan": (_PLANS, "make a batch plan of the samples' lengths"),
    "compute_shard_stats": (_PLANS, "compute the size of each rank's part of a batch plan"),
    "gen_distributed_augmentation_params": (_AUGMENTATION, "make the parameters of one sample"),
    "get_preset": ("torchdeck.data.augmentation_config", "get a preset: mild, moderate or aggressive"),
    "global_batches": (_ORDER, "iterate over the global batches of a data set"),
    "interleave_microbatches": (_PLANS, "take one microbatch of each bucket in turn"),
    "iter_from_checkpoint": (_POSITION, "iterate over the rest of a batch plan"),
    "load_batch_plan": (_PLANS, "open a batch plan"),
    "load_checkpoint_position": (_POSITION, "read a position of a batch plan from a file"),
    "plan_steps": (_PLANS, "iterate over the optimizer steps of a batch plan"),
    "redistribution_report": (_RANGES, "report which samples move if the world size changes"),
    "save_batch_plan": (_PLANS, "write a batch plan"),
    "save_checkpoint_position": (_POSITION, "write a position of a batch plan to a file"),
    "shard_batch_plan": (_PLANS, "get one rank's part of a batch plan"),
    "stream_distributed_augmentation_chain": (_AUGMENTATION, "make the parameters of a rank's samples"),
    "validate_distributed_setup": (_RANGES, "check that samples can be divided among ranks"),
}
"""Public name → its module, and one line for the list in `help`."""

HOMES = {name: home for name, (home, _) in NAMES.items()}
"""Public name → its module."""

__doc__ = with_names(__doc__, NAMES)
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, NAMES)
