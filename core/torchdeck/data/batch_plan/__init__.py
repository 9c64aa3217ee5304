"""Batch plans: precomputed schedules of microbatches, the same in the preview and in the ranks.

Build one from lengths (`build_batch_plan`), write and open it (`save_batch_plan`, `load_batch_plan`), shard
it (`BatchPlan.shard`, `compute_shard_stats`), and walk it step by step at any world size (`plan_steps`).
"""

from torchdeck.data.batch_plan.balance import BALANCES, DEFAULT_COST, DEFAULT_WINDOW, Balance
from torchdeck.data.batch_plan.building import build_batch_plan
from torchdeck.data.batch_plan.columns import BatchPlanError, Column, EpochColumns, Microbatch
from torchdeck.data.batch_plan.files.dataset_files import (
    MeasuredDataset,
    content_fingerprint,
    measure_dataset,
)
from torchdeck.data.batch_plan.files.length_files import Progress, read_lengths
from torchdeck.data.batch_plan.files.plan_files import check_place, is_plan, load_batch_plan, save_batch_plan
from torchdeck.data.batch_plan.files.shard_files import check_shards, save_shards
from torchdeck.data.batch_plan.files.source_data import DataSource, changed_source, listing_of
from torchdeck.data.batch_plan.lengths import lengths_fingerprint
from torchdeck.data.batch_plan.meta import PlanCounts, PlanMeta, ShardOf
from torchdeck.data.batch_plan.plan import BatchPlan, check_plan
from torchdeck.data.batch_plan.plan_settings import PlanSettings
from torchdeck.data.batch_plan.plan_steps import PlannedStep, PlanPosition, count_steps, plan_steps
from torchdeck.data.batch_plan.sharding import (
    ShardStats,
    all_shards,
    bucket_table,
    compute_shard_stats,
    idle_ranks,
    interleave_microbatches,
    shard_batch_plan,
)

__all__ = [
    "BALANCES",
    "DEFAULT_COST",
    "DEFAULT_WINDOW",
    "Balance",
    "BatchPlan",
    "BatchPlanError",
    "Column",
    "DataSource",
    "EpochColumns",
    "MeasuredDataset",
    "Microbatch",
    "PlanCounts",
    "PlanMeta",
    "PlanPosition",
    "PlanSettings",
    "PlannedStep",
    "Progress",
    "ShardOf",
    "ShardStats",
    "all_shards",
    "bucket_table",
    "build_batch_plan",
    "changed_source",
    "check_place",
    "check_plan",
    "check_shards",
    "compute_shard_stats",
    "content_fingerprint",
    "count_steps",
    "idle_ranks",
    "interleave_microbatches",
    "is_plan",
    "lengths_fingerprint",
    "listing_of",
    "load_batch_plan",
    "measure_dataset",
    "plan_steps",
    "read_lengths",
    "save_batch_plan",
    "save_shards",
    "shard_batch_plan",
]
