"""Shards of a plan, one or all, and an order that suits sharding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from torchdeck.data.batch_plan.balance import Balance, check_world_size, rank_table
from torchdeck.data.batch_plan.plan import BatchPlan


class HasRank(Protocol):
    """Object with a process's rank and world size, as DistributedConfig and Place are."""

    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...


class HasBucket(Protocol):
    """Microbatch of a length bucket."""

    @property
    def bucket_id(self) -> int: ...


_Bucketed = TypeVar("_Bucketed", bound=HasBucket)


def shard_batch_plan(
    plan: BatchPlan,
    config: HasRank,
    *,
    balance: Balance = "none",
    window: int | None = None,
    cost: int | None = None,
) -> BatchPlan:
    """The part of the rank in `config`; see `BatchPlan.shard`. A single process gets the whole plan."""
    if (config.rank, config.world_size) == (0, 1):
        return plan
    return plan.shard(config.rank, config.world_size, balance=balance, window=window, cost=cost)


def all_shards(
    plan: BatchPlan,
    world_size: int,
    *,
    balance: Balance = "none",
    window: int | None = None,
    cost: int | None = None,
) -> Iterator[BatchPlan]:
    """Yield the shard of each rank, from 0; balanced once for all of them. Errors: see `BatchPlan.shard`."""
    world_size = check_world_size(world_size)
    epochs = [plan.epoch_columns(epoch) for epoch in range(plan.epochs)]
    tables = [rank_table(columns, world_size, balance, window=window, cost=cost) for columns in epochs]
    for rank in range(world_size):
        rows = [table[rank] for table in tables]
        parts = [columns.select(row[row >= 0]) for columns, row in zip(epochs, rows, strict=True)]
        yield plan.part(parts, rank, world_size, balance)


def idle_ranks(plan: BatchPlan, world_size: int) -> str | None:
    """Return a warning if some epoch has fewer microbatches than ranks; None if all ranks have work.

    Raises:
        BatchPlanError: the world size is out of range.
    """
    world_size = check_world_size(world_size)
    fewest = min(range(plan.epochs), key=plan.microbatches)
    microbatches = plan.microbatches(fewest)
    if microbatches >= world_size:
        return None
    idle = world_size - microbatches
    return (
        f"epoch {fewest} has {microbatches} microbatches for {world_size} ranks: "
        f"{idle} rank{' has' if idle == 1 else 's have'} nothing to do; use fewer ranks or a smaller budget"
    )


def interleave_microbatches(microbatches: Sequence[_Bucketed]) -> list[_Bucketed]:
    """Take one microbatch of each bucket in turn, by ascending bucket; within a bucket the order is kept."""
    buckets: dict[int, list[_Bucketed]] = {}
    turns = []
    for microbatch in microbatches:
        bucket = buckets.setdefault(microbatch.bucket_id, [])
        turns.append((len(bucket), microbatch.bucket_id))
        bucket.append(microbatch)
    return [buckets[bucket][turn] for turn, bucket in sorted(turns)]
