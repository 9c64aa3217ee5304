"""Shards of a plan, one or all, and an order that suits sharding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError, shown
from torchdeck.data.batch_plan.balance import Balance, check_dealing, check_world_size, rank_table
from torchdeck.data.batch_plan.columns import EpochColumns, Ints
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


@arguments(own_checks=True)
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


@arguments(own_checks=True)
def interleave_microbatches(microbatches: Sequence[_Bucketed]) -> list[_Bucketed]:
    """Take one microbatch of each bucket in turn, by ascending bucket; within a bucket the order is kept.

    Raises:
        ArgumentError: one of them is no microbatch.
    """
    for given in microbatches:
        if not hasattr(given, "bucket_id"):
            raise ArgumentError(f"a microbatch is {shown(given)}", fix="give those of a batch plan")
    buckets: dict[int, list[_Bucketed]] = {}
    turns = []
    for microbatch in microbatches:
        bucket = buckets.setdefault(microbatch.bucket_id, [])
        turns.append((len(bucket), microbatch.bucket_id))
        bucket.append(microbatch)
    return [buckets[bucket][turn] for turn, bucket in sorted(turns)]


# Work of each rank of a plan, without creating a shard.

_CHUNK = 1 << 19
"""Microbatches processed at a time."""
_BUCKET_ROW = ("bucket", "up_to", "microbatches", "samples", "tokens", "padding")


@dataclass(frozen=True, eq=False)
class ShardStats(Mapping[int, Mapping[str, int]]):
    """Statistics of every rank's shard: arrays of shape (world_size,), and a mapping from rank to values by
    name.
    """

    num_batches: Ints
    """Number of microbatches."""
    total_samples: Ints
    total_tokens: Ints
    """Number of tokens without padding."""
    padding: Ints
    """Number of padding tokens."""

    def __getitem__(self, rank: int) -> Mapping[str, int]:
        if not 0 <= rank < len(self):
            raise KeyError(rank)
        return {name: int(getattr(self, name)[rank]) for name in self.__dataclass_fields__}

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return len(self.num_batches)

    @property
    def imbalance(self) -> float:
        """Largest number of tokens of a rank, divided by the mean: 1 is perfect; 0 if there are no tokens."""
        mean = float(self.total_tokens.mean())
        return float(self.total_tokens.max()) / mean if mean else 0.0


@arguments(own_checks=True)
def compute_shard_stats(
    plan: BatchPlan,
    world_size: int,
    *,
    balance: Balance = "none",
    window: int | None = None,
    cost: int | None = None,
    epoch: int | None = None,
) -> ShardStats:
    """Compute the size of each rank's shard, over all epochs or one.

    Args:
        plan: the whole plan.
        world_size: number of ranks.
        balance: as for `BatchPlan.shard`.
        window: as for `BatchPlan.shard`.
        cost: as for `BatchPlan.shard`.
        epoch: only this one, from 0. Default: all epochs.

    Raises:
        BatchPlanError: an argument is out of range.
    """
    world_size = check_world_size(world_size)
    check_dealing(balance, window, cost)
    sums = np.zeros((4, world_size), dtype=np.int64)
    for number in range(plan.epochs) if epoch is None else (epoch,):
        columns = plan.epoch_columns(number)
        if balance == "none":
            _add_round_robin(sums, columns)
        else:
            _add_table(sums, columns, rank_table(columns, world_size, balance, window=window, cost=cost))
    batches, samples, tokens, padded = sums
    return ShardStats(batches, samples, tokens, padded - tokens)


def _add_round_robin(sums: Ints, columns: EpochColumns) -> None:
    world_size = sums.shape[1]
    # whole rounds at a time, so that column r of a part is rank r
    step = max(1, _CHUNK // world_size) * world_size
    for first in range(0, len(columns), step):
        last = min(first + step, len(columns))
        for total, values in zip(sums, _measures(columns, first, last), strict=True):
            whole = len(values) - len(values) % world_size
            total += values[:whole].reshape(-1, world_size).sum(axis=0, dtype=np.int64)
            total[: len(values) - whole] += values[whole:]


def _add_table(sums: Ints, columns: EpochColumns, table: Ints) -> None:
    measures = [np.append(values, 0) for values in _measures(columns, 0, len(columns))]
    for total, values in zip(sums, measures, strict=True):
        # −1, no microbatch, selects the zero at the end
        total += values[table].sum(axis=1, dtype=np.int64)


def _measures(columns: EpochColumns, first: int, last: int) -> tuple[npt.NDArray[np.signedinteger], ...]:
    """Return ones, samples, tokens and padded tokens of microbatches `first` to `last` - 1."""
    samples = np.diff(columns.offsets[first : last + 1])
    rows = samples if columns.row_offsets is None else np.diff(columns.row_offsets[first : last + 1])
    padded = np.multiply(rows, columns.max_len[first:last], dtype=np.int64)
    return np.ones_like(samples), samples, columns.tokens[first:last], padded


def bucket_table(plan: BatchPlan) -> list[dict[str, int]]:
    """Return a row for every bucket that occurs, over all epochs.

    The keys are `bucket`, `up_to` (its upper bound; the longest `max_len` if unknown), `microbatches`,
    `samples`, `tokens`, `padding`.
    """
    rows: dict[int, dict[str, int]] = {}
    for epoch in range(plan.epochs):
        columns = plan.epoch_columns(epoch)
        found, group = np.unique(columns.bucket_id, return_inverse=True)
        longest = np.zeros(len(found), dtype=np.int64)
        np.maximum.at(longest, group, columns.max_len)
        # sums in float64 are exact up to 2**53 tokens
        sums = [np.bincount(group, values) for values in _measures(columns, 0, len(columns))]
        for at, bucket in enumerate(found.tolist()):
            row = rows.setdefault(bucket, dict.fromkeys(_BUCKET_ROW, 0))
            batches, samples, tokens, padded = (int(total[at]) for total in sums)
            bounds = plan.meta.bounds
            row["bucket"] = bucket
            row["up_to"] = bounds[bucket] if bucket < len(bounds) else max(row["up_to"], int(longest[at]))
            for name, value in zip(_BUCKET_ROW[2:], (batches, samples, tokens, padded - tokens), strict=True):
                row[name] += value
    return [rows[bucket] for bucket in sorted(rows)]
