"""Who takes what: every microbatch once, as many each, as much each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.batch_plan import (
    BALANCES,
    Balance,
    BatchPlan,
    BatchPlanError,
    all_shards,
    build_batch_plan,
    compute_shard_stats,
)
from torchdeck.data.batch_plan.balance import balanced, microbatch_costs
from torchdeck.data.order import SampleOrder

RANKS = 64
EACH = 16


def _plan(seed: int, count: int = RANKS * EACH, sigma: float = 1.0) -> BatchPlan:
    """Of lognormal lengths, one sample a microbatch."""
    lengths = np.clip(np.random.default_rng(seed).lognormal(6, sigma, count), 1, 8192).astype(int)
    return build_batch_plan(lengths, token_budget=int(lengths.max()), buckets=1, seed=seed)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("balance", "sigma"), [("tokens", 1.0), ("tokens", 0.6), ("attention", 0.6)])
def test_lognormal_loads_are_within_two_per_cent(balance: Balance, sigma: float, seed: int) -> None:
    """With 16 microbatches a rank and 64 ranks no rank has over 1.02 of the mean, and all have 16."""
    costs = microbatch_costs(_plan(seed, sigma=sigma).epoch_columns(0), balance, None)
    loads = [0] * RANKS
    table = balanced(costs, loads)
    assert table.shape == (RANKS, EACH)
    assert sorted(table.ravel().tolist()) == list(range(RANKS * EACH))
    assert costs[table].sum(axis=1).tolist() == loads
    assert max(loads) <= 1.02 * sum(loads) / RANKS
    in_turn = costs.reshape(-1, RANKS).sum(axis=0)
    assert in_turn.max() / in_turn.mean() > 1.3


@pytest.mark.parametrize("seed", range(5))
def test_one_sample_over_the_mean_is_the_limit(seed: int) -> None:
    """Where the largest microbatch with the 15 smallest is over the mean, no rank has more than that."""
    costs = microbatch_costs(_plan(seed).epoch_columns(0), "attention", None)
    loads = [0] * RANKS
    balanced(costs, loads)
    ordered = np.sort(costs)
    limit = max(int(ordered[-1] + ordered[: EACH - 1].sum()), sum(loads) / RANKS)
    assert max(loads) <= 1.02 * limit


def test_balanced_shards_of_a_long_plan() -> None:
    """Over many windows the shards stay within 1.02, as stats and shards alike say."""
    plan = _plan(1, 50_000)
    stats = compute_shard_stats(plan, RANKS, balance="tokens")
    assert stats.imbalance <= 1.02
    shards = all_shards(plan, RANKS, balance="tokens")
    tokens = [int(shard.epoch_columns(0).tokens.sum()) for shard in shards]
    assert tokens == stats.total_tokens.tolist()


def test_windows_keep_ranks_in_step() -> None:
    """Microbatches that ranks take at the same time cost nearly the same, and not ever less in a window."""
    plan = _plan(2)
    shards = [shard.epoch_columns(0).tokens for shard in all_shards(plan, 4, balance="tokens", window=16)]
    loads = np.array(shards)
    in_turn = plan.epoch_columns(0).tokens.reshape(-1, 4)
    assert loads.max(axis=0).sum() < 0.75 * in_turn.max(axis=1).sum()
    falling = (np.diff(loads.max(axis=0)) <= 0).mean()
    assert 0.3 < falling < 0.7


@settings(deadline=None)
@given(
    costs=st.lists(st.integers(0, 10**6), max_size=120),
    world_size=st.integers(1, 17),
    loads=st.integers(0, 10**6),
)
def test_counts_differ_by_one_at_most(costs: list[int], world_size: int, loads: int) -> None:
    """Whatever the costs, every item is given once, and no rank has two more than another."""
    table = balanced(np.array(costs, dtype=np.int64), [loads] + [0] * (world_size - 1))
    given_out = table[table >= 0]
    counts = (table >= 0).sum(axis=1)
    assert sorted(given_out.tolist()) == list(range(len(costs)))
    assert counts.max() - counts.min() <= 1


@settings(deadline=None)
@given(
    samples=st.integers(1, 120),
    world_size=st.integers(1, 9),
    balance=st.sampled_from(BALANCES),
    window=st.integers(1, 5),
    pack=st.booleans(),
)
def test_shards_hold_every_sample_once(
    samples: int, world_size: int, balance: Balance, window: int, pack: bool
) -> None:
    """Together the shards are the plan; stats say what they hold; they differ by one microbatch at most."""
    lengths = SampleOrder(samples, 9).epoch(0) % 30 + 1
    plan = build_batch_plan(lengths, token_budget=64, max_length=32, epochs=2, pack=pack)
    shards = list(all_shards(plan, world_size, balance=balance, window=window))
    stats = compute_shard_stats(plan, world_size, balance=balance, window=window)
    for epoch in range(2):
        ids = [sample for shard in shards for sample in shard.epoch_columns(epoch).sample_ids.tolist()]
        assert sorted(ids) == list(range(samples))
        counts = [shard.microbatches(epoch) for shard in shards]
        assert max(counts) - min(counts) <= 1
    for rank, shard in enumerate(shards):
        alone = plan.shard(rank, world_size, balance=balance, window=window)
        assert alone.fingerprint == shard.fingerprint
        epochs = [shard.epoch_columns(epoch) for epoch in range(2)]
        padded = sum(int(columns.padded_tokens.sum()) for columns in epochs)
        tokens = sum(int(columns.tokens.sum()) for columns in epochs)
        assert stats[rank] == {
            "num_batches": shard.total_microbatches,
            "total_samples": sum(len(columns.sample_ids) for columns in epochs),
            "total_tokens": tokens,
            "padding": padded - tokens,
        }


def test_attention_cost_by_hand() -> None:
    """A microbatch of two rows of 10 costs 2 · (c·10 + 10²)."""
    columns = build_batch_plan([10, 10], token_budget=20).epoch_columns(0)
    assert microbatch_costs(columns, "attention", 7).tolist() == [2 * (70 + 100)]
    assert microbatch_costs(columns, "tokens", None).tolist() == [20]
    packed = build_batch_plan([5, 5, 10], token_budget=20, max_length=10, pack=True).epoch_columns(0)
    assert microbatch_costs(packed, "attention", 7).tolist() == [2 * (70 + 100)]


def test_the_longest_samples_there_can_be() -> None:
    """Where costs or loads would not fit 64 bits, tokens are balanced and attention is refused."""
    plan = build_batch_plan([2**31 - 1] * 9, token_budget=2**31 - 1)
    assert compute_shard_stats(plan, 3, balance="tokens").imbalance == 1
    with pytest.raises(BatchPlanError, match="of up to 2147483647 tokens the attention costs of all do not"):
        compute_shard_stats(plan, 3, balance="attention")


def test_a_window_of_any_width() -> None:
    """Where there are too many swaps to look at, largest first alone still gives each rank as many."""
    stats = compute_shard_stats(_plan(3, 20_000), 2, balance="tokens", window=10**12)
    assert stats.num_batches.tolist() == [10_000, 10_000]
    assert stats.imbalance <= 1.02


def test_numbers_may_be_numpys() -> None:
    """Rank, world size, window and cost may be what numpy counts with; the shard is the same to the byte."""
    plan = build_batch_plan([1, 2, 3, 4, 5], token_budget=5)
    chosen = {"balance": "attention", "window": np.int64(2), "cost": np.int32(7)}
    shard = plan.shard(np.int64(1), np.int16(2), **chosen)  # type: ignore[arg-type]
    assert shard.fingerprint == plan.shard(1, 2, balance="attention", window=2, cost=7).fingerprint


def test_arguments_out_of_range() -> None:
    """World size, rank, balance, window and cost are refused with the rule."""
    plan = build_batch_plan([1, 2, 3], token_budget=3)
    with pytest.raises(BatchPlanError, match="world size 0 is out of range: it must be at least 1"):
        compute_shard_stats(plan, 0)
    with pytest.raises(BatchPlanError, match="world size 1000000000000 is out of range: it must be at most"):
        compute_shard_stats(plan, 10**12)
    with pytest.raises(BatchPlanError, match="world size '2' is out of range"):
        plan.shard(0, "2")  # type: ignore[arg-type]
    with pytest.raises(BatchPlanError, match="window must be a whole number of microbatches from 1"):
        compute_shard_stats(plan, 2, window=0)
    with pytest.raises(BatchPlanError, match="rank 2 is out of range: with 2 ranks it must be from 0 to 1"):
        plan.shard(2, 2)
    with pytest.raises(BatchPlanError, match="balance must be one of none, tokens, attention, not 'x'"):
        plan.shard(0, 2, balance="x")  # type: ignore[arg-type]
    with pytest.raises(BatchPlanError, match="window must be a whole number of microbatches from 1"):
        plan.shard(0, 2, balance="tokens", window=0)
    with pytest.raises(BatchPlanError, match="c of the attention cost must be a whole number from 0"):
        plan.shard(0, 2, balance="attention", cost=-1)
