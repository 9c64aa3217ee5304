"""Optimizer steps: every sample exactly once an epoch, whatever stops and changes in between."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.batch_plan import (
    BALANCES,
    Balance,
    BatchPlan,
    BatchPlanError,
    PlannedStep,
    PlanPosition,
    build_batch_plan,
    count_steps,
    plan_steps,
)
from torchdeck.data.order import PositionError

Leg = tuple[int, int, Balance, int]


def _plan(samples: int, epochs: int = 1) -> BatchPlan:
    lengths = [(index * 31) % 50 + 1 for index in range(samples)]
    return build_batch_plan(lengths, token_budget=100, epochs=epochs)


def _samples(step: PlannedStep, world_size: int, accumulation: int) -> list[int]:
    used = []
    for rank in range(world_size):
        parts = step.parts(rank)
        assert len(parts) == accumulation
        used += [sample for part in parts if part is not None for sample in part.sample_ids.tolist()]
    return used


@settings(deadline=None)
@given(
    samples=st.integers(1, 150),
    epochs=st.integers(1, 3),
    legs=st.lists(
        st.tuples(st.integers(1, 7), st.integers(1, 4), st.sampled_from(BALANCES), st.integers(1, 6)),
        min_size=1,
        max_size=6,
    ),
)
def test_exactly_once_through_stops_and_changes(samples: int, epochs: int, legs: list[Leg]) -> None:
    """Stopped anywhere and resumed at other sizes, each epoch has the samples of the data set, once each."""
    plan = _plan(samples, epochs)
    used: list[list[int]] = [[] for _ in range(epochs)]
    position, turn = PlanPosition(), 0
    while position.epoch < epochs:
        world_size, accumulation, balance, many = legs[turn % len(legs)]
        turn += 1
        steps = plan_steps(
            plan, world_size=world_size, accumulation=accumulation, balance=balance, start=position
        )
        for step, _ in zip(steps, range(many), strict=False):
            assert step.before == position
            taken = _samples(step, world_size, accumulation)
            assert step.samples == len(taken)
            used[step.epoch] += taken
            position = PlanPosition.from_json(step.after.to_json())
    assert all(sorted(ids) == list(range(samples)) for ids in used)


@settings(deadline=None)
@given(
    samples=st.integers(1, 150),
    world_size=st.integers(1, 7),
    accumulation=st.integers(1, 4),
    balance=st.sampled_from(BALANCES),
    consumed=st.integers(0, 5),
)
def test_every_rank_makes_every_step(
    samples: int, world_size: int, accumulation: int, balance: Balance, consumed: int
) -> None:
    """As many steps and parts on each rank; all full but the last of an epoch, whose ranks differ by one."""
    plan = _plan(samples, 2)
    start = PlanPosition(0, min(consumed, plan.microbatches(0)), 3)
    arguments = {"world_size": world_size, "accumulation": accumulation, "start": start}
    steps = list(plan_steps(plan, balance=balance, **arguments))  # type: ignore[arg-type]
    assert len(steps) == count_steps(plan, **arguments)  # type: ignore[arg-type]
    assert [step.before.step for step in steps] == list(range(3, 3 + len(steps)))
    for step in steps:
        counts = [sum(part is not None for part in step.parts(rank)) for rank in range(world_size)]
        if step.after.epoch == step.epoch:
            assert counts == [accumulation] * world_size
        assert max(counts) - min(counts) <= 1
        assert step.tokens == sum(
            part.tokens for rank in range(world_size) for part in step.parts(rank) if part is not None
        )
        assert sorted(step.table[step.table >= 0].tolist()) == step.indices.tolist()


def test_round_robin_within_a_step() -> None:
    """Rank i takes i, i + W, … of the step; the last step leaves ranks without, but none out."""
    plan = build_batch_plan([4] * 11, token_budget=4)
    first, last = plan_steps(plan, world_size=3, accumulation=2)
    assert first.table.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert last.table.tolist() == [[6, 9], [7, 10], [8, -1]]
    assert [part and part.index for part in last.parts(2)] == [8, None]
    assert (last.before, last.after) == (PlanPosition(0, 6, 1), PlanPosition(1, 0, 2))


@pytest.mark.parametrize("balance", ["tokens", "attention"])
def test_a_balanced_step_is_as_long_as_its_mean(balance: Balance) -> None:
    """The rank with most to do has at most 1.02 of the mean of a step of 64 × 16 lognormal microbatches."""
    lengths = np.clip(np.random.default_rng(0).lognormal(6, 0.6, 1024), 1, 8192).astype(int)
    plan = build_batch_plan(lengths, token_budget=int(lengths.max()), buckets=1)
    (step,) = plan_steps(plan, world_size=64, accumulation=16, balance=balance)
    length = step.columns.tokens[step.table].astype(np.int64)
    work = (length if balance == "tokens" else length * (6144 + length)).sum(axis=1)
    assert work.max() / work.mean() <= 1.02


@settings(deadline=None)
@given(
    samples=st.integers(2, 150),
    world_size=st.integers(1, 5),
    accumulation=st.integers(1, 3),
    balance=st.sampled_from(BALANCES),
)
def test_weighting_by_tokens_leaves_no_bias(
    samples: int, world_size: int, accumulation: int, balance: Balance
) -> None:
    """Microbatch means weighted by tokens over the step's tokens add up to the mean over all tokens."""
    plan = _plan(samples)
    lengths = np.array([(index * 31) % 50 + 1 for index in range(samples)])
    gradient = np.random.default_rng(samples).normal(size=samples)
    for step in plan_steps(plan, world_size=world_size, accumulation=accumulation, balance=balance):
        parts = [part for rank in range(world_size) for part in step.parts(rank) if part is not None]
        ids = np.concatenate([part.sample_ids for part in parts])
        wanted = np.average(gradient[ids], weights=lengths[ids])
        means = [np.average(gradient[part.sample_ids], weights=lengths[part.sample_ids]) for part in parts]
        weighted = sum(mean * part.tokens / step.tokens for mean, part in zip(means, parts, strict=True))
        assert weighted == pytest.approx(wanted)


def test_bad_arguments_and_positions() -> None:
    """Each is refused when steps are asked for, with the rule."""
    plan = _plan(20, 2)
    with pytest.raises(BatchPlanError, match="world size 0 is out of range"):
        plan_steps(plan, world_size=0)
    with pytest.raises(BatchPlanError, match="accumulation 0 is out of range: it must be at least 1"):
        plan_steps(plan, world_size=1, accumulation=0)
    with pytest.raises(BatchPlanError, match="accumulation 0 is out of range"):
        count_steps(plan, world_size=1, accumulation=0)
    with pytest.raises(BatchPlanError, match="c of the attention cost must be a whole number"):
        plan_steps(plan, world_size=1, balance="attention", cost=-1)
    with pytest.raises(BatchPlanError, match="balance must be one of"):
        plan_steps(plan, world_size=1, balance="x")  # type: ignore[arg-type]
    with pytest.raises(BatchPlanError, match="shard of rank 1 alone"):
        plan_steps(plan.shard(1, 2), world_size=2)
    with pytest.raises(BatchPlanError, match="rank 2 is out of range"):
        next(plan_steps(plan, world_size=2)).parts(2)
    with pytest.raises(PositionError, match="is in epoch 3, but the batch plan has 2"):
        plan_steps(plan, world_size=1, start=PlanPosition(3, 0, 0))
    with pytest.raises(PositionError, match="says 99 microbatches of epoch 1 are used"):
        plan_steps(plan, world_size=1, start=PlanPosition(1, 99, 0))
    assert list(plan_steps(plan, world_size=1, start=PlanPosition(2, 0, 9))) == []


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "an object with epoch, microbatches and step"),
        ({"v": 2}, "position has version 2"),
        ({"v": 1, "epoch": 0, "microbatches": 0, "step": 0, "x": 0}, "unknown fields: x"),
        ({"v": 1, "epoch": 0, "microbatches": -1, "step": 0}, "microbatches of a position must be"),
        ({"v": 1, "epoch": True, "microbatches": 0, "step": 0}, "epoch of a position must be"),
    ],
)
def test_positions_that_are_none(value: object, said: str) -> None:
    """A value from a file is checked field by field."""
    with pytest.raises(PositionError, match=said):
        PlanPosition.from_json(value)
