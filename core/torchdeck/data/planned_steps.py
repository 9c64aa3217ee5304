"""Steps of a training whose microbatches come from a batch plan."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from torchdeck.data.batch_plan import (
    Balance,
    BatchPlan,
    BatchPlanError,
    Microbatch,
    PlannedStep,
    PlanPosition,
    plan_steps,
)
from torchdeck.data.order import Ids, PositionError, begun_epoch
from torchdeck.data.step_order import DataPosition, Layout, OrderedStep, StepOrder

_SHORT = 12
"""Digits of a fingerprint to display."""


class MarkedPosition:
    """A position in one specific batch plan."""

    def __init__(self, position: PlanPosition, batch_plan: str) -> None:
        self.position = position
        self.batch_plan = batch_plan

    @property
    def epoch(self) -> int:
        return self.position.epoch

    @property
    def step(self) -> int:
        return self.position.step

    def to_json(self) -> dict[str, Any]:
        return {**self.position.to_json(), "batch_plan": self.batch_plan}


class StepOfPlan(OrderedStep):
    """The next microbatches of a plan, distributed over the ranks."""

    def __init__(self, step: PlannedStep, batch_plan: str) -> None:
        self._step = step
        self._batch_plan = batch_plan

    @property
    def epoch(self) -> int:
        return self._step.epoch

    @property
    def samples(self) -> int:
        return self._step.samples

    @property
    def after(self) -> MarkedPosition:
        return MarkedPosition(self._step.after, self._batch_plan)

    @property
    def filler(self) -> int:
        # the first sample of the step's shortest microbatch: fillers should be cheap
        indices = self._step.indices
        shortest = int(indices[np.argmin(self._step.columns.max_len[indices])])
        return int(self._step.columns.sample_ids[self._step.columns.offsets[shortest]])

    def parts(self, rank: int) -> list[Ids]:
        return [
            np.empty(0, np.int64) if microbatch is None else microbatch.sample_ids.astype(np.int64)
            for microbatch in self._step.parts(rank)
        ]

    def layouts(self, rank: int) -> list[Layout | None]:
        parts = self._step.parts(rank)
        return [None if part is None else _layout(part) for part in parts]

    def shapes(self) -> Iterator[Hashable]:
        columns, indices = self._step.columns, self._step.indices
        return zip(columns.rows[indices].tolist(), columns.max_len[indices].tolist(), strict=True)


class PlannedSteps(StepOrder):
    """Steps of `world_size` × `accumulation` microbatches of `plan`, in its order.

    Raises:
        BatchPlanError: the plan is a shard, or an argument is out of range.
    """

    def __init__(
        self, plan: BatchPlan, *, world_size: int, accumulation: int, balance: Balance = "none"
    ) -> None:
        self._plan = plan
        self._world_size = world_size
        self._accumulation = accumulation
        self._balance = balance
        self._steps(PlanPosition())

    @property
    def size(self) -> int:
        return self._plan.size

    @property
    def sample_names(self) -> tuple[str, ...] | None:
        return self._plan.names

    def epoch_samples(self, epoch: int) -> int:
        return len(self._plan.epoch_columns(epoch).sample_ids)

    @property
    def needs_layout(self) -> str:
        return needs_layout(self._plan)

    @property
    def batch_plan(self) -> str:
        return self._plan.fingerprint

    @property
    def start(self) -> MarkedPosition:
        return self._marked(PlanPosition())

    def restored(self, value: Mapping[str, Any]) -> MarkedPosition:
        plan, ours = value.get("batch_plan"), self.batch_plan
        if plan is None:
            raise PositionError(
                "the checkpoint was made without a batch plan, and this run has one: leave out "
                "batch_plan, or start over"
            )
        if plan != ours:
            raise PositionError(
                f"the checkpoint was made with batch plan {str(plan)[:_SHORT]}, and batch_plan is "
                f"now {ours[:_SHORT]}: give the plan it was made with, or start over"
            )
        rest = {name: item for name, item in value.items() if name != "batch_plan"}
        position = PlanPosition.from_json(rest)
        position.check(self._plan)
        return self._marked(position)

    def steps(self, start: DataPosition) -> Iterator[OrderedStep]:
        return (StepOfPlan(step, self.batch_plan) for step in self._steps(_planned(start)))

    def steps_left(self, epochs: float, position: DataPosition) -> int:
        if epochs > self._plan.epochs:
            raise BatchPlanError(
                f"epochs is {epochs:g}, and the batch plan has {self._plan.epochs}",
                fix=f"build it with {math.ceil(epochs)} epochs, or train for fewer",
            )
        return sum(-(-left // self._each) for left in self._left(epochs, _planned(position)))

    def total_steps(self, steps: int | None, epochs: float | None, position: DataPosition) -> int:
        if steps is not None:
            most = position.step + self.steps_left(self._plan.epochs, position)
            if steps > most:
                raise self._too_short(steps, most)
        return super().total_steps(steps, epochs, position)

    def _too_short(self, steps: int, most: int) -> BatchPlanError:
        had = self._plan.epochs
        epochs = "1 epoch" if had == 1 else f"{had} epochs"
        more = -(-(steps - most) // -(-self._plan.microbatches(0) // self._each))
        return BatchPlanError(
            f"steps is {steps}, and the batch plan of {epochs} ends after step {most}",
            fix=f"build it with {had + more} epochs, or train for at most {most} steps",
        )

    @property
    def _each(self) -> int:
        """Return the microbatches per step."""
        return self._world_size * self._accumulation

    def _left(self, epochs: float, position: PlanPosition) -> Iterator[int]:
        """Yield the microbatches from `position` on in each epoch up to `epochs`."""
        whole = math.floor(epochs)
        for epoch in range(position.epoch, math.ceil(epochs)):
            wanted = self._plan.microbatches(epoch)
            if epoch == whole:
                wanted = begun_epoch(wanted, self._each, epochs)
            yield max(0, wanted - (position.microbatches if epoch == position.epoch else 0))

    def _steps(self, start: PlanPosition) -> Iterator[PlannedStep]:
        return plan_steps(
            self._plan,
            world_size=self._world_size,
            accumulation=self._accumulation,
            balance=self._balance,
            start=start,
        )

    def _marked(self, position: PlanPosition) -> MarkedPosition:
        return MarkedPosition(position, self.batch_plan)


def needs_layout(plan: BatchPlan) -> str:
    """Return the same as `StepOrder.needs_layout`, for a plan."""
    counts = plan.meta.counts
    if plan.epochs and plan.epoch_columns(0).row_sizes is not None:
        return "packs several samples into a row"
    return f"cuts {counts.truncated} samples to its maximum length" if counts.truncated else ""


def _layout(part: Microbatch) -> Layout:
    rows = None if part.row_sizes is None else tuple(part.row_sizes.tolist())
    return Layout(part.max_len, rows)


def _planned(position: DataPosition) -> PlanPosition:
    if not isinstance(position, MarkedPosition):
        raise PositionError(f"{position} is not a position in a batch plan")
    return position.position
