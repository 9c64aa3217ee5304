"""What each rank reads, laid out."""

import numpy as np
import pytest

from support.values.previews import preview, profile
from torchdeck.data.batch_plan import build_batch_plan
from torchdeck.plan.check import PlanError
from torchdeck.plan.known import Known

LENGTHS = np.random.default_rng(5).integers(1, 65, 1000)


def test_a_seeded_order_is_counted_whole() -> None:
    """1,000 samples, 16 a step: 63 steps an epoch, and the ranks' samples are all samples."""
    data = preview(1, 2, training={"epochs": 2, "microbatch": 8}).data
    assert data is not None
    assert (data.steps_per_epoch, data.steps, data.samples.tolist()) == (63, 126, [1000, 1000])
    assert data.tokens is not None
    assert data.tokens.tolist() == [128000.0, 128000.0]
    assert (data.imbalance, data.unit, data.padding) == (1.0, "tokens", None)


def test_samples_stand_for_tokens_where_these_are_unknown() -> None:
    """Imbalance is then counted in samples."""
    known = Known(profile(samples=9, tokens=None))
    data = preview(1, 2, known=known, training={"epochs": 1, "microbatch": 2}).data
    assert data is not None
    assert (data.unit, data.samples.tolist()) == ("samples", [4, 5])
    assert data.imbalance == pytest.approx(5 / 4.5)


def test_a_batch_plan_is_counted_by_its_steps() -> None:
    """All samples of the epochs, the plan's tokens, how every balance would do."""
    plan = build_batch_plan(LENGTHS, token_budget=128, epochs=2)
    made = preview(1, 4, batch_plan=plan, training={"epochs": 2, "batch_plan": "/bp", "balance": "tokens"})
    data, prediction = made.data, made.plan.prediction
    assert data is not None
    assert prediction is not None
    assert prediction.data is not None
    assert prediction.data.fingerprint == plan.fingerprint
    assert (data.source, int(data.samples.sum())) == ("batch plan", 2000)
    assert data.tokens is not None
    assert data.tokens.sum() == 2 * LENGTHS.sum()
    assert 0 < (data.padding or 0) < 1
    (chosen,) = [policy for policy in data.policies if policy.chosen]
    assert (chosen.name, chosen.steps) == ("tokens", data.steps)
    assert chosen.imbalance == pytest.approx(data.imbalance)


def test_a_batch_plan_gives_the_microbatch() -> None:
    """The arithmetic is over the plan's mean microbatch, and says so."""
    plan = build_batch_plan(LENGTHS, token_budget=128)
    made = preview(1, 2, batch_plan=plan, training={"epochs": 1, "batch_plan": "/bp"})
    assert made.plan.batch is not None
    assert made.plan.batch.microbatch == pytest.approx(1000 / plan.total_microbatches)
    assert "mean microbatch of the batch plan" in made.arithmetic[0]
    assert made.arithmetic[-1].endswith(": 1,000 samples")


def test_a_batch_plan_that_is_too_short_is_a_problem() -> None:
    """More steps than it has: said at its key, with how many there are."""
    plan = build_batch_plan(LENGTHS, token_budget=128)
    with pytest.raises(PlanError) as caught:
        preview(1, 2, batch_plan=plan, training={"steps": 100_000, "batch_plan": "/bp"})
    (problem,) = caught.value.problems
    assert problem.path == "training.batch_plan"
    assert "ends after step" in problem.wrong


def test_nothing_is_said_of_data_that_is_not_known() -> None:
    """Without a profile there is no data section, and steps of epochs are not known."""
    made = preview(1, 2, known=Known(failure="not traced"), training={"epochs": 3})
    assert made.data is None
    assert made.plan.steps is None
    assert made.notes == ("not traced",)


@pytest.mark.parametrize(
    ("samples", "ranks", "idle"), [(5, 4, ""), (5, 8, ", and 3 of 8 ranks read nothing"), (8, 4, None)]
)
def test_data_that_is_less_than_a_step_is_said(samples: int, ranks: int, idle: str | None) -> None:
    """With how many ranks have nothing to do; nothing is said where there is enough."""
    made = preview(1, ranks, known=Known(profile(samples)), training={"steps": 3, "microbatch": 2})
    said = f"a step takes {2 * ranks} samples and an epoch has {samples}: each step is a whole epoch{idle}"
    assert [note for note in made.notes if "a step takes" in note] == ([] if idle is None else [said])


def test_more_ranks_than_microbatches_are_said() -> None:
    """By the microbatches of the plan."""
    plan = build_batch_plan([10, 10, 10], token_budget=10)
    made = preview(1, 4, batch_plan=plan, training={"epochs": 1, "batch_plan": "/bp"})
    said = "a step takes 4 microbatches and an epoch has 3: each step is a whole epoch, and 1 of 4 ranks"
    assert any(note.startswith(said) for note in made.notes)
