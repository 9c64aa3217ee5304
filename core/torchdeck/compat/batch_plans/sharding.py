"""Shards of a batch plan: the library's own, also for a process that has a rank and no group."""

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.data.batch_plan import BatchPlan, compute_shard_stats, interleave_microbatches
from torchdeck.data.batch_plan import shard_batch_plan as _shard
from torchdeck.data.batch_plan.sharding import HasRank

__all__ = ["compute_shard_stats", "interleave_microbatches", "shard_batch_plan"]


@arguments()
def shard_batch_plan(plan: BatchPlan, config: HasRank) -> BatchPlan:
    """Return the part of the rank in `config`; the whole plan at a world size of 1.

    Raises:
        BatchPlanError: rank and world size contradict each other.
    """
    return plan if config.world_size == 1 else _shard(plan, config)
