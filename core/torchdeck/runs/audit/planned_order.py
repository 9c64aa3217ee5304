"""Planned steps of an attempt, recomputed as its ranks and the preview compute them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan, PlanFormatError
from torchdeck.data.batch_plan import BatchPlanError, load_batch_plan
from torchdeck.data.order import PositionError, SampleOrder
from torchdeck.data.planned_steps import PlannedSteps
from torchdeck.data.sample_log import SampleLogHeader
from torchdeck.data.step_order import DataPosition, SeededSteps, StepOrder
from torchdeck.distributed.checked import SettingsError
from torchdeck.distributed.settings import RecipeSettings, TrainingSettings


class CannotRecomputeError(Exception):
    """The planned steps cannot be recomputed; the message says why."""


@dataclass(frozen=True)
class PlannedAttempt:
    """Planned steps of an attempt."""

    order: StepOrder
    start: DataPosition
    end: int
    """Optimizer steps, from the very start, after which training is complete."""


def planned_attempt(layout: RunLayout, attempt: int, header: SampleLogHeader) -> PlannedAttempt:
    """Return the planned steps of an attempt, from its plan.json and the size of the data it found.

    Raises:
        CannotRecomputeError: the plan or the batch plan cannot be read, or the batch plan has changed.
    """
    training = _training(layout, attempt)
    order = _order(training, header)
    try:
        start = order.restored(header.start)
        end = order.total_steps(training.steps, training.epochs, start)
    except (PositionError, BatchPlanError) as error:
        raise CannotRecomputeError(str(error)) from error
    return PlannedAttempt(order, start, end)


def _order(training: TrainingSettings, header: SampleLogHeader) -> StepOrder:
    if training.batch_plan is None:
        return SeededSteps(
            SampleOrder(header.size, training.seed),
            microbatch=training.microbatch,
            accumulation=training.accumulation,
            world_size=header.world_size,
        )
    try:
        plan = load_batch_plan(training.batch_plan)
        order = PlannedSteps(
            plan,
            world_size=header.world_size,
            accumulation=training.accumulation,
            balance=training.balance,
        )
    except (BatchPlanError, OSError) as error:
        raise CannotRecomputeError(f"the batch plan cannot be read any more: {error}") from error
    if header.batch_plan and order.batch_plan != header.batch_plan:
        raise CannotRecomputeError(
            f"the batch plan in {training.batch_plan} is another one now: the ranks used "
            f"{header.batch_plan[:12]}, it is {order.batch_plan[:12]}"
        )
    return order


def read_plan(path: Path) -> LaunchPlan | None:
    """Return the plan in a plan.json; None if there is no readable one."""
    try:
        return LaunchPlan.from_json(read_json(path))
    except (PlanFormatError, OSError):
        return None


def _training(layout: RunLayout, attempt: int) -> TrainingSettings:
    plan = read_plan(layout.attempt(attempt).plan)
    try:
        if plan is not None:
            return RecipeSettings.from_json(plan.nodes[0].env["TORCHDECK_RECIPE"]).training
    except (SettingsError, KeyError, IndexError) as error:
        raise CannotRecomputeError(
            f"the plan of attempt {attempt} says nothing of training: {error}"
        ) from error
    raise CannotRecomputeError(f"the plan of attempt {attempt} cannot be read")
