"""How much each microbatch has: what ranks will really do, counted by arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.previews import preview, profile
from torchdeck.data.batch_plan import BatchPlan, build_batch_plan
from torchdeck.plan.known import Known
from torchdeck.plan.planned_counts import step_order
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.microbatches import microbatch_table

LENGTHS = np.random.default_rng(5).integers(1, 65, 1000)
PLAN = build_batch_plan(LENGTHS, token_budget=128, epochs=2)


def planned(gpus: int = 4, plan: BatchPlan = PLAN, **training: object) -> Preview:
    return preview(1, gpus, batch_plan=plan, training={"epochs": 2, "batch_plan": "/bp", **training})


def taken(made: Preview, first: int, steps: int) -> list[list[int]]:
    """Samples of each microbatch of each rank, by the steps that the trainer takes."""
    order = step_order(made.config.training, made.plan.world_size, made.known)
    assert order is not None
    done = [step for number, step in zip(range(first + steps), order.steps(order.start), strict=False)]
    return [
        [len(ids) for step in done[first:] for ids in step.parts(rank)]
        for rank in range(made.plan.world_size)
    ]


@given(
    size=st.integers(1, 300),
    ranks=st.integers(1, 8),
    microbatch=st.integers(1, 5),
    accumulation=st.integers(1, 3),
    first=st.integers(0, 20),
)
def test_a_seeded_order_is_as_the_trainer_takes_it(
    size: int, ranks: int, microbatch: int, accumulation: int, first: int
) -> None:
    training = {"steps": 24, "microbatch": microbatch, "accumulation": accumulation}
    made = preview(1, ranks, known=Known(profile(samples=size, tokens=3.0)), training=training)
    table = microbatch_table(made, first, 6)
    assert table is not None
    assert table.samples.tolist() == taken(made, first, min(6, 24 - first))
    assert table.tokens is not None
    assert table.tokens.tolist() == (table.samples * 3.0).tolist()
    assert (table.steps, table.unit) == (min(6, 24 - first), "tokens")


@pytest.mark.parametrize("balance", ["none", "tokens", "attention"])
@pytest.mark.parametrize("first", [0, 3, 17])
def test_a_batch_plan_is_as_the_trainer_takes_it(balance: str, first: int) -> None:
    made = planned(balance=balance, accumulation=2)
    table = microbatch_table(made, first, 4)
    assert table is not None
    assert table.samples.tolist() == taken(made, first, 4)
    assert table.padded is not None
    assert table.tokens is not None
    assert (table.padded >= table.tokens).all()


@pytest.mark.parametrize("balance", ["none", "tokens"])
def test_all_steps_together_are_what_ranks_read(balance: str) -> None:
    """The sums over the whole run are those of the data preview, both epochs' partial steps included."""
    made = planned(balance=balance)
    assert made.data is not None
    table = microbatch_table(made, 0, made.data.steps)
    assert table is not None
    assert table.samples.sum(axis=1).tolist() == made.data.samples.tolist()
    assert made.data.tokens is not None
    assert table.load.sum(axis=1).tolist() == made.data.tokens.tolist()


def test_the_last_steps_are_fewer() -> None:
    made = preview(1, 2, training={"steps": 10})
    table = microbatch_table(made, 8, 50)
    assert table is not None
    assert (table.first_step, table.steps) == (8, 2)
    with pytest.raises(ValueError, match="from 0 to 9"):
        microbatch_table(made, 10, 1)


def test_samples_stand_for_tokens_where_these_are_unknown() -> None:
    made = preview(1, 2, known=Known(profile(samples=9, tokens=None)), training={"steps": 4})
    table = microbatch_table(made, 0, 1)
    assert table is not None
    assert (table.tokens, table.unit) == (None, "samples")
    assert table.load.tolist() == table.samples.tolist()


def test_nothing_is_known_without_data() -> None:
    made = preview(1, 2, known=Known(failure="not traced"), training={"steps": 3})
    assert microbatch_table(made, 0, 1) is None
