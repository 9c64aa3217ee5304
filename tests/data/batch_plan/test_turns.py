"""Over an epoch no rank has the heavier part of every step, and going on from a position changes nothing."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.batch_plan import Balance, BatchPlan, PlanPosition, build_batch_plan, plan_steps
from torchdeck.data.batch_plan.balance import microbatch_costs
from torchdeck.data.batch_plan.plan_steps import Turns

BALANCED: list[Balance] = ["tokens", "attention"]


def _lognormal(samples: int, seed: int = 0) -> BatchPlan:
    """One sample a microbatch."""
    lengths = np.clip(np.random.default_rng(seed).lognormal(6, 0.6, samples), 1, 8192).astype(int)
    return build_batch_plan(lengths, token_budget=int(lengths.max()), buckets=1, seed=seed)


def _most(plan: BatchPlan, world_size: int, balance: Balance) -> float:
    """Cost of the rank with most over the mean, of the whole epoch with one microbatch a rank and step."""
    costs = np.append(microbatch_costs(plan.epoch_columns(0), balance, None), 0)
    steps = plan_steps(plan, world_size=world_size, balance=balance)
    loads = sum(costs[step.table].sum(axis=1) for step in steps)
    return float(np.max(loads) / np.mean(loads))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("balance", BALANCED)
@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_totals_are_even_where_steps_cannot_be(world_size: int, balance: Balance, seed: int) -> None:
    """With one microbatch a rank and step the totals of an epoch are within 2 %."""
    assert _most(_lognormal(2000, seed), world_size, balance) <= 1.02


def test_equal_microbatches_go_round() -> None:
    """Where all cost the same but the last few, these fall to ranks that the number of the step says."""
    plan = build_batch_plan([4] * 7, token_budget=4)
    first, second = plan_steps(plan, world_size=4, balance="tokens")
    assert first.table.ravel().tolist() == [0, 1, 2, 3]
    assert second.table.ravel().tolist() == [-1, 4, 5, 6]


@settings(deadline=None)
@given(
    samples=st.integers(1, 400),
    world_size=st.integers(1, 6),
    accumulation=st.integers(1, 3),
    balance=st.sampled_from(BALANCED),
    consumed=st.integers(0, 400),
    done=st.integers(0, 80),
)
def test_a_resumed_run_deals_as_one_that_never_stopped(
    samples: int, world_size: int, accumulation: int, balance: Balance, consumed: int, done: int
) -> None:
    """From wherever another world size has left off, too: steps after a stop are those without it."""
    plan = _lognormal(samples)
    begun = PlanPosition(0, consumed % samples, 0)
    arguments = {"world_size": world_size, "accumulation": accumulation}
    steps = list(plan_steps(plan, **arguments, balance=balance, start=begun))
    stop = steps[min(done, len(steps) - 1)].before
    resumed = list(plan_steps(plan, **arguments, balance=balance, start=stop))
    rest = list(itertools.dropwhile(lambda step: step.before != stop, steps))
    assert [step.table.tolist() for step in resumed] == [step.table.tolist() for step in rest]
    used = np.sort(np.concatenate([step.table[step.table >= 0] for step in steps]))
    assert used.tolist() == list(range(begun.microbatches, samples))


def test_loads_stay_small_in_long_epochs() -> None:
    """What all ranks have had is left out: the longest samples there can be do not overflow."""
    columns = build_batch_plan([2**31 - 1] * 300, token_budget=2**31 - 1).epoch_columns(0)
    turns = Turns(columns, (2, 1), "tokens", None)
    given_out = [turns.table(first, first + 2).ravel().tolist() for first in range(0, 300, 2)]
    assert all(sorted(step) == [0, 1] for step in given_out)
