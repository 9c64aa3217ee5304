"""What ranks read of a batch plan, against the steps themselves."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.batch_plan import BALANCES, Balance, BatchPlan, build_batch_plan, plan_steps
from torchdeck.plan.planned_counts import PlannedCounts

FEW = st.integers(1, 4)


def made(samples: int, epochs: int = 2) -> BatchPlan:
    """A plan of samples of 1 to 40 tokens, 64 tokens a microbatch."""
    lengths = np.random.default_rng(3).integers(1, 41, samples)
    return build_batch_plan(lengths, token_budget=64, epochs=epochs)


@settings(deadline=None)
@given(st.integers(1, 60), FEW, FEW, st.sampled_from(BALANCES), st.integers(1, 30))
def test_totals_are_those_of_the_steps(
    samples: int, world_size: int, accumulation: int, balance: Balance, steps: int
) -> None:
    """Columns summed give each rank what walking through its microbatches does, over epochs too."""
    plan = made(samples)
    walked = np.zeros((3, world_size), dtype=np.int64)
    planned = plan_steps(plan, world_size=world_size, accumulation=accumulation, balance=balance)
    for step in itertools.islice(planned, steps):
        for rank in range(world_size):
            for part in step.parts(rank):
                if part is not None:
                    walked[:, rank] += (part.batch_size, part.tokens, part.padded_tokens)
    totals = PlannedCounts(plan, world_size, accumulation, balance).totals(steps)
    assert np.stack([totals.samples, totals.tokens, totals.padded]).tolist() == walked.tolist()


def test_balancing_shows_in_the_comparison() -> None:
    """Balanced by tokens, steps wait less for the fullest rank than dealt in turn."""
    counts = PlannedCounts(made(4000), world_size=8, accumulation=16)
    steps = counts.plan.microbatches(0) // counts.per_step
    assert counts.evenness("tokens", steps)[1] < counts.evenness("none", steps)[1]
    assert counts.evenness("tokens", steps)[0] == pytest.approx(1.0, abs=0.02)


def test_few_steps_of_a_long_run_are_compared() -> None:
    """At least one, and no more than the run has."""
    plan = made(100)
    assert PlannedCounts(plan, 8, 2).compared(10) == 10
    assert PlannedCounts(plan, 1000, 10).compared(1_000_000) == 5
    assert PlannedCounts(plan, 60_000, 2).compared(7) == 1
