"""Batch arithmetic of one optimizer step."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.config.training import Training
from torchdeck.plan.batch import explain_batch, plan_batch

SIZES = st.integers(1, 512)


@settings(deadline=None)
@given(SIZES, SIZES, SIZES)
def test_global_batch_is_the_product(microbatch: int, accumulation: int, world_size: int) -> None:
    """Microbatch × accumulation × ranks; by default lr holds for one rank."""
    training = Training(steps=1, microbatch=microbatch, accumulation=accumulation, scaling="linear", lr=0.5)
    batch = plan_batch(training, world_size)
    assert batch.global_batch == microbatch * accumulation * world_size
    assert batch.reference_batch == microbatch * accumulation
    assert batch.lr_factor == world_size
    assert batch.scaled_lr == pytest.approx(0.5 * world_size)


@settings(deadline=None)
@given(SIZES, SIZES, st.sampled_from(["none", "linear", "sqrt"]))
def test_at_the_reference_batch_lr_is_as_written(microbatch: int, world_size: int, rule: str) -> None:
    """Whatever the rule, nothing is scaled where the global batch is the reference."""
    training = Training.model_validate(
        {"steps": 1, "microbatch": microbatch, "scaling": rule, "reference_batch": microbatch * world_size}
    )
    assert plan_batch(training, world_size).scaled_lr == training.lr


def test_square_root_scaling() -> None:
    """Four times the batch, twice the rate."""
    training = Training(steps=1, microbatch=16, scaling="sqrt", lr=3e-4, reference_batch=16)
    assert plan_batch(training, 4).scaled_lr == pytest.approx(6e-4)
    assert plan_batch(training, 2).lr_factor == pytest.approx(math.sqrt(2))


def test_the_arithmetic_is_spelled_out() -> None:
    """A person can check it by hand."""
    training = Training(steps=1000, microbatch=16, accumulation=4, scaling="sqrt", lr=3e-4)
    lines = explain_batch(plan_batch(training, 2))
    assert lines[0].startswith("global batch 16 × 4 × 2 = 128 samples")
    assert lines[1].startswith("lr 0.0003 × √2 = 0.000424264")
    assert lines[2] == "1,000 steps × 128 = 128,000 samples"


def test_the_last_step_of_an_epoch_may_be_short() -> None:
    """Said where the samples counted are fewer than all steps were full."""
    batch = plan_batch(Training(steps=3, microbatch=4), 2)
    assert explain_batch(batch, samples=24)[-1] == "3 steps × 8 = 24 samples"
    assert explain_batch(batch, samples=20)[-1].startswith("3 steps: 20 samples, the last step of an epoch")


def test_microbatches_of_a_batch_plan_are_not_alike() -> None:
    """Their mean gives about the global batch; what was counted is said as it is."""
    batch = plan_batch(Training(steps=1, microbatch=4), 2, mean_microbatch=2.5)
    assert explain_batch(batch)[-1] == "1 step ≈ 5 samples"
    assert explain_batch(batch, samples=7)[-1] == "1 step: 7 samples"


def test_data_that_is_less_than_a_step_is_said_at_its_arithmetic() -> None:
    """With what the learning rate is scaled for; nothing if there is enough, or no scaling."""
    batch = plan_batch(Training(steps=3, microbatch=4, scaling="linear"), 2)
    said = "warning: an epoch has 5 samples, so a step has at most these; lr is still scaled for 8"
    assert explain_batch(batch, in_epoch=5)[2] == said
    assert not any("warning" in line for line in explain_batch(batch, in_epoch=8))
    plain = plan_batch(Training(steps=3, microbatch=4, scaling="none"), 2)
    assert explain_batch(plain, in_epoch=5)[2].endswith("a step has at most these")
