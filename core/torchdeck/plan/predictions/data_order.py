"""Predicted sequence of steps of a run that has not started yet, in the order its ranks will take them."""

from __future__ import annotations

from torchdeck.config.training import Training
from torchdeck.data.order import SampleOrder
from torchdeck.data.planned_steps import PlannedSteps
from torchdeck.data.step_order import SeededSteps, StepOrder
from torchdeck.plan.known import Known


def step_order(training: Training, world_size: int, known: Known) -> StepOrder | None:
    """Return the source of the samples; None if the size of the data is not known.

    Raises:
        BatchPlanError: the batch plan is the shard of one rank.
    """
    if known.batch_plan is not None:
        return PlannedSteps(
            known.batch_plan,
            world_size=world_size,
            accumulation=training.accumulation,
            balance=training.balance,
        )
    if training.batch_plan is not None or known.profile is None or not known.profile.train_samples:
        return None
    return SeededSteps(
        SampleOrder(known.profile.train_samples, training.seed),
        microbatch=training.microbatch,
        accumulation=training.accumulation,
        world_size=world_size,
    )
