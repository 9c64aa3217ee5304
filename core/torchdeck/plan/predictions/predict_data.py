"""Samples and tokens of every rank over the whole run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from torchdeck.config.training import Training
from torchdeck.contract.plan.prediction import PredictedData, RankCounts
from torchdeck.data.batch_plan import BatchPlan, BatchPlanError
from torchdeck.plan.known import Known
from torchdeck.plan.predictions.data_order import step_order
from torchdeck.plan.predictions.planned_counts import PlannedCounts
from torchdeck.plan.predictions.seeded_counts import Counts, SeededCounts
from torchdeck.plan.problems import PlanError, problem


def predict_data(training: Training, world_size: int, known: Known) -> PredictedData | None:
    """What each rank reads; None where the size of the data is not known.

    Raises:
        PlanError: the batch plan does not fit the run.
    """
    try:
        order = step_order(training, world_size, known)
        if order is None:
            return None
        steps = order.total_steps(training.steps, training.epochs, order.start)
    except BatchPlanError as error:
        right = "a whole batch plan, of as many epochs as the run trains for"
        raise PlanError([problem("training.batch_plan", str(error), right)]) from error
    if known.batch_plan is not None:
        return _planned(training, world_size, known.batch_plan, steps)
    each = None if known.profile is None else known.profile.tokens_per_sample
    seeded = SeededCounts(order.size, training.microbatch, training.accumulation, world_size)
    samples = seeded.samples(steps)
    return PredictedData(
        source="seeded order",
        fingerprint="",
        size=seeded.size,
        steps_per_epoch=seeded.per_epoch,
        steps=steps,
        ranks=rank_counts(samples, None if each is None else (samples * each).astype(np.float64)),
    )


def data_notes(data: PredictedData, training: Training, world_size: int, known: Known) -> tuple[str, ...]:
    """What is to be said of data that has less than a step takes."""
    wanted, there, things = training.accumulation * world_size, data.size, "samples"
    if known.batch_plan is None:
        wanted *= training.microbatch
    else:
        there, things = known.batch_plan.microbatches(0), "microbatches"
    if there >= wanted:
        return ()
    said = f"a step takes {wanted:,} {things} and an epoch has {there:,}: each step is a whole epoch"
    idle = sum(counts.last - counts.first + 1 for counts in data.ranks if not counts.samples)
    return (f"{said}, and {idle:,} of {world_size:,} ranks read nothing" if idle else said,)


def _planned(training: Training, world_size: int, plan: BatchPlan, steps: int) -> PredictedData:
    counts = PlannedCounts(plan, world_size, training.accumulation, training.balance)
    totals = counts.totals(steps)
    return PredictedData(
        source="batch plan",
        fingerprint=plan.fingerprint,
        size=plan.size,
        steps_per_epoch=counts.per_epoch,
        steps=steps,
        ranks=rank_counts(totals.samples, totals.tokens.astype(np.float64)),
    )


def rank_counts(samples: Counts, tokens: npt.NDArray[np.float64] | None) -> tuple[RankCounts, ...]:
    """Ranks that read as much, joined where they follow each other."""
    changes = np.diff(samples) != 0
    if tokens is not None:
        changes |= np.diff(tokens) != 0
    starts = [0, *(np.flatnonzero(changes) + 1).tolist()]
    ends = [*(start - 1 for start in starts[1:]), len(samples) - 1]
    return tuple(
        RankCounts(first, last, int(samples[first]), None if tokens is None else float(tokens[first]))
        for first, last in zip(starts, ends, strict=True)
    )
