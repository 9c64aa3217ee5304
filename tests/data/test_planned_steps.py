"""The trainer's steps by a batch plan: exactly once, from any position, and no further than the plan goes."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.batch_plan import Balance, BatchPlan, BatchPlanError, build_batch_plan
from torchdeck.data.order import Position, PositionError, SampleOrder
from torchdeck.data.planned_steps import PlannedSteps
from torchdeck.data.step_order import SeededSteps

SEEDED = SeededSteps(SampleOrder(40, 0), microbatch=2, accumulation=1, world_size=2)


def plan_of(size: int = 40, *, seed: int = 0, epochs: int = 2) -> BatchPlan:
    lengths = np.random.default_rng(seed).integers(1, 60, size)
    return build_batch_plan(lengths, token_budget=120, seed=seed, epochs=epochs)


def steps_of(
    plan: BatchPlan, world_size: int = 2, accumulation: int = 1, balance: Balance = "none"
) -> PlannedSteps:
    return PlannedSteps(plan, world_size=world_size, accumulation=accumulation, balance=balance)


@settings(deadline=None, max_examples=40)
@given(data=st.data(), size=st.integers(1, 60), seed=st.integers(0, 9))
def test_each_sample_once_through_stops_and_other_worlds(data: st.DataObject, size: int, seed: int) -> None:
    """Stopped anywhere and gone on at another world size, accumulation, balance: an epoch is the data."""
    plan = plan_of(size, seed=seed)
    seen: dict[int, list[int]] = {0: [], 1: []}
    saved: dict[str, int | str] | None = None
    while True:
        order = steps_of(
            plan,
            data.draw(st.integers(1, 5)),
            data.draw(st.integers(1, 3)),
            data.draw(st.sampled_from(["none", "tokens", "attention"])),
        )
        position = order.start if saved is None else order.restored(saved)
        left = order.steps_left(2, position)
        if left == 0:
            break
        taken = data.draw(st.integers(1, left))
        for _, step in zip(range(taken), order.steps(position), strict=False):
            parts = [part for rank in range(order._world_size) for part in step.parts(rank)]
            assert sum(map(len, parts)) == step.samples
            assert step.after.step == position.step + 1
            assert 0 <= step.filler < size
            seen[step.epoch] += [int(id_) for part in parts for id_ in part]
            position = step.after  # type: ignore[assignment]
        saved = json.loads(json.dumps(position.to_json()))
    assert all(sorted(ids) == list(range(size)) for ids in seen.values())


def test_all_ranks_have_as_many_microbatches() -> None:
    """In the last step of an epoch too, where some are empty."""
    order = steps_of(plan_of(), world_size=3, accumulation=2)
    steps = list(order.steps(order.start))
    assert len(steps) == order.total_steps(None, 2.0, order.start) == order.steps_left(2, order.start)
    assert all(len(step.parts(rank)) == 2 for step in steps for rank in range(3))
    assert any(len(part) == 0 for step in steps for rank in range(3) for part in step.parts(rank))


def test_shapes_name_what_is_compiled_anew() -> None:
    """Rows and padded length of every microbatch of the step."""
    plan = plan_of()
    (first, *_) = steps_of(plan).steps(steps_of(plan).start)
    wanted = [(plan.microbatch(0, index).rows, plan.microbatch(0, index).max_len) for index in (0, 1)]
    assert list(first.shapes()) == wanted


def test_length_in_epochs_and_steps() -> None:
    """A fraction is a whole number of steps; from a position what is left is counted."""
    plan = plan_of()
    order = steps_of(plan)
    per_epoch = order.total_steps(None, 1.0, order.start)
    assert per_epoch == -(-plan.microbatches(0) // 2)
    half = order.total_steps(None, 0.5, order.start)
    assert half == -(-plan.microbatches(0) // 4)
    assert order.total_steps(None, 1.0 + 0.5, order.start) == per_epoch + -(-plan.microbatches(1) // 4)
    third = list(order.steps(order.start))[2].after
    assert order.total_steps(None, 0.5, third) == half
    assert order.total_steps(None, 2.0, third) == order.total_steps(None, 2.0, order.start)
    assert order.total_steps(5, None, third) == 5


@pytest.mark.parametrize(
    ("steps", "epochs", "sentence"),
    [
        (None, 2.5, "epochs is 2.5, and the batch plan has 2: build it with 3 epochs"),
        (1000, None, "steps is 1000, and the batch plan of 2 epochs ends after step"),
    ],
)
def test_longer_than_the_plan_is_refused(steps: int | None, epochs: float | None, sentence: str) -> None:
    """A plan is not begun again; the sentence says what would do."""
    order = steps_of(plan_of())
    with pytest.raises(BatchPlanError, match=re.escape(sentence)):
        order.total_steps(steps, epochs, order.start)


def test_the_epochs_that_are_named_suffice() -> None:
    """The number of epochs that is said holds the steps, and one fewer does not."""
    with pytest.raises(
        BatchPlanError, match=r"build it with (\d+) epochs, or train for at most \d+ "
    ) as caught:
        steps_of(plan_of()).total_steps(1000, None, steps_of(plan_of()).start)
    found = re.search(r"with (\d+) epochs", str(caught.value))
    assert found is not None
    enough = steps_of(plan_of(epochs=int(found[1])))
    assert enough.total_steps(1000, None, enough.start) == 1000
    short = steps_of(plan_of(epochs=int(found[1]) - 1))
    with pytest.raises(BatchPlanError, match="ends after step"):
        short.total_steps(1000, None, short.start)


def test_a_checkpoint_of_another_order_is_refused() -> None:
    """Another plan, a plan where there was none, and none where there was one: each its own sentence."""
    order, other = steps_of(plan_of()), steps_of(plan_of(seed=1))
    with pytest.raises(PositionError, match="give the plan it was made with, or start over"):
        order.restored(other.start.to_json())
    with pytest.raises(PositionError, match="was made without a batch plan, and this run has one"):
        order.restored(Position(0, 4, 2).to_json())
    with pytest.raises(PositionError, match="and this run has none: give batch_plan"):
        SEEDED.restored(order.start.to_json())
    with pytest.raises(PositionError, match="is not a position in a batch plan"):
        order.steps(Position())
    with pytest.raises(PositionError, match="is not a position in an order that a seed gives"):
        SEEDED.steps(order.start)
    assert SEEDED.restored(Position(0, 4, 2).to_json()) == Position(0, 4, 2)
