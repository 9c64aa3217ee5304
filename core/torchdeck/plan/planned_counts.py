"""Counts of what ranks read under a batch plan: sums over its columns, by the steps that the ranks take."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from torchdeck.config.training import Training
from torchdeck.data.batch_plan import Balance, BatchPlan, EpochColumns, plan_steps
from torchdeck.data.order import SampleOrder
from torchdeck.data.planned_steps import PlannedSteps
from torchdeck.data.step_order import SeededSteps, StepOrder
from torchdeck.plan.known import Known

Ints = npt.NDArray[np.int64]

_COMPARED = 50_000
"""Microbatches over which balances are compared, in whole steps; millions would take seconds."""


@dataclass(frozen=True, eq=False)
class Totals:
    """Totals of each rank, shape (world size,) each."""

    samples: Ints
    tokens: Ints
    """Without padding."""
    padded: Ints
    """Computed tokens, padding included."""


@dataclass(frozen=True, eq=False)
class PlannedCounts:
    """Counts of the steps of a batch plan."""

    plan: BatchPlan
    world_size: int
    accumulation: int
    balance: Balance = "none"

    @property
    def per_step(self) -> int:
        """Number of microbatches in a full step."""
        return self.world_size * self.accumulation

    @property
    def per_epoch(self) -> int:
        """Number of steps in the first epoch."""
        return -(-self.plan.microbatches(0) // self.per_step)

    def totals(self, steps: int) -> Totals:
        """Return the totals of each rank over the first `steps` steps."""
        parts = self._dealt(steps) if self.balance == "none" else self._balanced(steps, self.balance)
        sums = np.zeros((3, self.world_size), dtype=np.int64)
        for part in parts:
            sums += part
        return Totals(*sums)

    def compared(self, steps: int) -> int:
        """Return how many of the first `steps` steps `evenness` can evaluate in reasonable time."""
        return min(steps, max(1, _COMPARED // self.per_step))

    def evenness(self, balance: Balance, steps: int) -> tuple[float, float]:
        """Return the imbalance under another balance over the first `steps` steps: the largest total of
        tokens of a rank ÷ mean, and the mean over steps of the same ratio within each step. Ranks without
        any work count.
        """
        tokens = np.array([part[1] for part in self._balanced(steps, balance)], dtype=np.float64)
        whole = tokens.sum(axis=0)
        each = tokens.max(axis=1) / np.maximum(tokens.mean(axis=1), 1e-300)
        return float(whole.max() / whole.mean()) if whole.any() else 1.0, float(each.mean())

    def _dealt(self, steps: int) -> Iterator[Ints]:
        """Yield the microbatches of each epoch by rank. Rank i takes i, i + W, … of each epoch: a step is a
        multiple of W long.
        """
        for epoch in range(self.plan.epochs):
            columns = self.plan.epoch_columns(epoch)
            used = min(len(columns), steps * self.per_step)
            yield np.stack([_by_rank(values[:used], self.world_size) for values in _measures(columns)])
            steps -= -(-used // self.per_step)
            if steps <= 0:
                return

    def _balanced(self, steps: int, balance: Balance) -> Iterator[Ints]:
        measures: dict[int, list[Ints]] = {}
        planned = plan_steps(
            self.plan, world_size=self.world_size, accumulation=self.accumulation, balance=balance
        )
        for step in itertools.islice(planned, steps):
            if step.epoch not in measures:
                # −1, no microbatch, selects the zero at the end
                measures = {step.epoch: [np.append(values, 0) for values in _measures(step.columns)]}
            yield np.stack([values[step.table].sum(axis=1) for values in measures[step.epoch]])


def _measures(columns: EpochColumns) -> tuple[Ints, ...]:
    """Return samples, tokens and padded tokens of each microbatch."""
    return (
        columns.batch_size.astype(np.int64, copy=False),
        columns.tokens.astype(np.int64, copy=False),
        columns.padded_tokens,
    )


def _by_rank(values: Ints, world_size: int) -> Ints:
    whole = len(values) - len(values) % world_size
    sums: Ints = values[:whole].reshape(-1, world_size).sum(axis=0, dtype=np.int64)
    sums[: len(values) - whole] += values[whole:]
    return sums


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
