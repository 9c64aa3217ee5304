"""Shards, stats as a mapping, interleaving."""

from typing import NamedTuple

import numpy as np
import pytest

from torchdeck.data.batch_plan import (
    bucket_table,
    build_batch_plan,
    compute_shard_stats,
    idle_ranks,
    interleave_microbatches,
    shard_batch_plan,
)
from torchdeck.environment import Place


class _Microbatch(NamedTuple):
    bucket_id: int
    name: str


def test_round_robin() -> None:
    """Rank i of W takes microbatches i, i + W, …, counted again, and says what it is a part of."""
    plan = build_batch_plan([4] * 23, token_budget=4, epochs=2)
    shard = shard_batch_plan(plan, Place(rank=1, world_size=4, local_world_size=4))
    order = [microbatch.sample_ids.tolist() for microbatch in plan.iter_epoch(1)]
    assert [microbatch.sample_ids.tolist() for microbatch in shard.iter_epoch(1)] == order[1::4]
    assert [microbatch.index for microbatch in shard.iter_epoch(1)] == [0, 1, 2, 3, 4, 5]
    assert shard.meta.shard is not None
    assert (shard.meta.shard.fingerprint, shard.meta.shard.rank) == (plan.fingerprint, 1)
    assert shard.fingerprint != plan.fingerprint
    assert shard_batch_plan(plan, Place()) is plan


def test_more_ranks_than_microbatches() -> None:
    """Ranks without work have empty shards, and a sentence says so."""
    plan = build_batch_plan([4, 4, 4], token_budget=4)
    shard = plan.shard(4, 5)
    assert shard.total_microbatches == 0
    assert list(shard.iter_epoch(0)) == []
    assert compute_shard_stats(plan, 5).num_batches.tolist() == [1, 1, 1, 0, 0]
    assert idle_ranks(plan, 5) == (
        "epoch 0 has 3 microbatches for 5 ranks: 2 ranks have nothing to do; "
        "use fewer ranks or a smaller budget"
    )
    assert idle_ranks(plan, 3) is None


def test_stats_are_a_mapping_of_ranks() -> None:
    """From rank to what it has; and a rank that is none is missing."""
    stats = compute_shard_stats(build_batch_plan([3, 4, 4], token_budget=4, buckets=1), 2)
    assert list(stats) == [0, 1]
    assert {row["num_batches"] for row in stats.values()} == {1, 2}
    assert int(stats.padding.sum()) == 0
    assert 2 not in stats
    assert stats.imbalance == stats.total_tokens.max() / (11 / 2)
    assert (
        compute_shard_stats(build_batch_plan([3], token_budget=4, epochs=3), 1, epoch=2)[0]["total_samples"]
        == 1
    )


def test_stats_of_many_parts_equal_those_of_one() -> None:
    """What is summed in parts is what the columns say, for a number of ranks that divides nothing."""
    lengths = np.arange(1_300_000) % 5 + 1
    plan = build_batch_plan(lengths, token_budget=5, max_length=5)
    stats = compute_shard_stats(plan, 7)
    columns = plan.epoch_columns(0)
    assert len(columns) > 1 << 19
    for rank in range(7):
        assert stats[rank] == {
            "num_batches": len(columns.tokens[rank::7]),
            "total_samples": int(columns.batch_size[rank::7].sum()),
            "total_tokens": int(columns.tokens[rank::7].sum()),
            "padding": int((columns.padded_tokens - columns.tokens)[rank::7].sum()),
        }


def test_interleaving_takes_turns() -> None:
    """One of each bucket, lowest first, until a bucket is empty; the order within a bucket stays."""
    names = [
        _Microbatch(2, "a"),
        _Microbatch(0, "b"),
        _Microbatch(2, "c"),
        _Microbatch(2, "d"),
        _Microbatch(1, "e"),
    ]
    assert [item.name for item in interleave_microbatches(names)] == ["b", "e", "a", "c", "d"]
    assert interleave_microbatches([]) == []
    plan = build_batch_plan([1, 1, 9, 9, 9], token_budget=9, buckets=[1, 9], seed=4)
    mixed = interleave_microbatches(list(plan.iter_epoch(0)))
    assert [microbatch.bucket_id for microbatch in mixed] == [0, 1, 1, 1]


@pytest.mark.parametrize("pack", [False, True])
def test_buckets_add_up(pack: bool) -> None:
    """The table of buckets has each sample, token and microbatch of all epochs once."""
    lengths = [(index * 31) % 50 + 1 for index in range(500)]
    plan = build_batch_plan(lengths, token_budget=200, max_length=50, epochs=2, pack=pack)
    table = bucket_table(plan)
    assert [row["up_to"] for row in table] == list(plan.meta.bounds)
    assert sum(row["samples"] for row in table) == 1000
    assert sum(row["tokens"] for row in table) == 2 * sum(lengths)
    assert sum(row["microbatches"] for row in table) == plan.total_microbatches
    padded = sum(int(plan.epoch_columns(epoch).padded_tokens.sum()) for epoch in range(2))
    assert sum(row["padding"] for row in table) == padded - 2 * sum(lengths)
