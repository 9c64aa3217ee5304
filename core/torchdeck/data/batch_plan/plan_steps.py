"""Optimizer steps of a plan: which rank takes which microbatch in which step, at any world size.

A step takes the next world_size × accumulation microbatches of the epoch in the plan's order. The last step
of an epoch takes the remainder, however small. Every rank runs every step, without work if it has no
microbatch, so that each microbatch counts exactly once and all ranks join every reduction. The microbatches
of a step depend only on its position and their number: a run continues at another world size with what
remains.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from torchdeck.contract.arguments.checked_call import arguments, checked_class
from torchdeck.data.batch_plan.balance import (
    NONE,
    Balance,
    balanced,
    check_balance,
    check_cost,
    check_rank,
    check_world_size,
    microbatch_costs,
    round_robin,
)
from torchdeck.data.batch_plan.columns import BatchPlanError, EpochColumns, Ints, Microbatch
from torchdeck.data.batch_plan.plan import BatchPlan
from torchdeck.data.checked import as_whole
from torchdeck.data.order import PositionError, position_counts
from torchdeck.data.spellings import ACCUMULATION, AccumulationSpelling

if TYPE_CHECKING:
    from typing_extensions import Unpack


@checked_class
@dataclass(frozen=True)
class PlanPosition:
    """Position in a batch plan; it does not depend on world size, accumulation or balance."""

    epoch: int = 0
    """Number of finished epochs."""
    microbatches: int = 0
    """Number of microbatches of the current epoch that are done."""
    step: int = 0
    """Number of optimizer steps since the start of training."""

    def to_json(self) -> dict[str, int]:
        return {"v": 1, "epoch": self.epoch, "microbatches": self.microbatches, "step": self.step}

    @classmethod
    @arguments(own_checks=True)
    def from_json(cls, value: Any) -> PlanPosition:
        """Read a position from `value`.

        Raises:
            PositionError: it is not a position in a batch plan, or was written by a newer Torchdeck.
        """
        return cls(*position_counts(value, ("epoch", "microbatches", "step")))

    @arguments(own_checks=True)
    def check(self, plan: BatchPlan) -> None:
        """Raise PositionError if this cannot be a position in `plan`."""
        at_end = self.epoch == plan.epochs and self.microbatches == 0
        if min(self.epoch, self.microbatches, self.step) < 0 or (self.epoch >= plan.epochs and not at_end):
            raise PositionError(
                f"the position is in epoch {self.epoch}, but the batch plan has {plan.epochs}: "
                "it is not the plan of the checkpoint"
            )
        if not at_end and self.microbatches > plan.microbatches(self.epoch):
            raise PositionError(
                f"the position says {self.microbatches} microbatches of epoch {self.epoch} are used, but the "
                f"batch plan has {plan.microbatches(self.epoch)}: it is not the plan of the checkpoint"
            )


@dataclass(frozen=True, eq=False)
class PlannedStep:
    """Microbatches of one optimizer step."""

    columns: EpochColumns
    """Columns of the epoch."""
    table: Ints
    """Indices in the epoch, shape (world_size, accumulation); −1 if a rank has no microbatch."""
    before: PlanPosition
    after: PlanPosition
    """The position after this step."""

    @property
    def epoch(self) -> int:
        """The epoch, from 0."""
        return self.before.epoch

    @property
    def indices(self) -> Ints:
        """Return the microbatches of all ranks, in the plan's order, shape (m,)."""
        return np.arange(self.before.microbatches, self.before.microbatches + int((self.table >= 0).sum()))

    @property
    def samples(self) -> int:
        """Number of samples of all ranks."""
        low, high = self._bounds()
        return int(self.columns.offsets[high]) - int(self.columns.offsets[low])

    @property
    def tokens(self) -> int:
        """Number of tokens of all ranks, without padding: the divisor of a mean over the step's tokens."""
        low, high = self._bounds()
        return int(self.columns.tokens[low:high].sum(dtype=np.int64))

    @arguments(own_checks=True)
    def parts(self, rank: int) -> list[Microbatch | None]:
        """The microbatches of `rank` in order, of length accumulation; None if there is nothing left.

        Raises:
            BatchPlanError: the rank does not exist.
        """
        row = self.table[check_rank(rank, len(self.table))].tolist()
        return [None if index == NONE else self.columns.microbatch(index) for index in row]

    def _bounds(self) -> tuple[int, int]:
        return self.before.microbatches, self.before.microbatches + int((self.table >= 0).sum())


@arguments(also=ACCUMULATION, own_checks=True)
def plan_steps(
    plan: BatchPlan,
    *,
    world_size: int,
    accumulation: int = 1,
    balance: Balance = "none",
    cost: int | None = None,
    start: PlanPosition | None = None,
    **_: Unpack[AccumulationSpelling],
) -> Iterator[PlannedStep]:
    """Yield the steps of `plan` from `start` to the end of its last epoch; each `after` can be a `start`.

    Args:
        plan: the whole plan, not a shard.
        world_size: number of ranks.
        accumulation: microbatches per step on each rank.
        balance: which rank takes which microbatch of a step. "none": rank i takes i, i + W, …;
            "tokens", "attention": largest first with equal numbers, see `balance`, and the largest share of
            a step to the rank that had least, see `turns`.
        cost: with "attention": its c.
        start: where to continue; world size, accumulation and balance may have changed.

    Raises:
        BatchPlanError: world size, accumulation or balance is out of range, or the plan is a shard.
        PositionError: `start` does not match the plan.
    """
    shape = _checked_shape(world_size, accumulation)
    check_balance(balance)
    check_cost(cost)
    if plan.meta.shard is not None:
        raise BatchPlanError(
            f"this is the shard of rank {plan.meta.shard.rank} alone: steps are planned from the whole plan"
        )
    position = PlanPosition() if start is None else start
    position.check(plan)
    return _steps(plan, shape, balance, cost, position)


def count_steps(
    plan: BatchPlan, *, world_size: int, accumulation: int = 1, start: PlanPosition | None = None
) -> int:
    """Return the number of steps that `plan_steps` yields; the same errors."""
    size = math.prod(_checked_shape(world_size, accumulation))
    position = PlanPosition() if start is None else start
    position.check(plan)
    left = [plan.microbatches(epoch) for epoch in range(position.epoch, plan.epochs)]
    if left:
        left[0] -= position.microbatches
    return sum(-(-microbatches // size) for microbatches in left)


def _checked_shape(world_size: int, accumulation: int) -> tuple[int, int]:
    number = as_whole(accumulation)
    if number is None or number < 1:
        raise BatchPlanError(f"accumulation {accumulation!r} is out of range: it must be at least 1")
    return check_world_size(world_size), number


def _steps(
    plan: BatchPlan, shape: tuple[int, int], balance: Balance, cost: int | None, position: PlanPosition
) -> Iterator[PlannedStep]:
    step, consumed = position.step, position.microbatches
    for epoch in range(position.epoch, plan.epochs):
        columns = plan.epoch_columns(epoch)
        turns = None if balance == "none" else Turns(columns, shape, balance, cost)
        while consumed < len(columns):
            last = min(consumed + shape[0] * shape[1], len(columns))
            before = PlanPosition(epoch, consumed, step)
            step += 1
            whole = last == len(columns)
            after = PlanPosition(epoch + 1, 0, step) if whole else PlanPosition(epoch, last, step)
            yield PlannedStep(columns, _table(turns, consumed, last, shape), before, after)
            consumed = last
        consumed = 0


def _table(turns: Turns | None, first: int, last: int, shape: tuple[int, int]) -> Ints:
    filled = round_robin(last - first, shape[0]) if turns is None else turns.table(first, last)
    table = np.full(shape, NONE, dtype=np.int64)
    table[:, : filled.shape[1]] = np.where(filled == NONE, NONE, filled + first)
    return table


# Distribution of a balanced step's parts over the ranks, so that no rank has the heaviest part in every step.
# If a step has few microbatches for each rank, its parts cannot be even. Each step's heaviest part then goes
# to the rank that has had least, and so on. Ties go to the rank whose turn it is by the step number. Loads
# are summed over some hundred steps, from a step that only the position and the shape of a step determine: a
# resumed run distributes like one that never stopped.

_TOGETHER = 256
"""Maximum number of steps over which rank loads are summed."""
_MICROBATCHES = 1 << 18
"""Maximum microbatches in these steps, as they are distributed again when a run resumes inside them."""


class Turns:
    """Distributes the steps of one epoch."""

    def __init__(
        self, columns: EpochColumns, shape: tuple[int, int], balance: Balance, cost: int | None
    ) -> None:
        """Prepare the distribution.

        Args:
            columns: columns of the epoch.
            shape: world size and accumulation.
            balance: "tokens" or "attention".
            cost: c of attention.
        """
        self._columns = columns
        self._world_size, self._size = shape[0], shape[0] * shape[1]
        self._balance, self._cost = balance, cost
        self._together = min(_TOGETHER, max(1, _MICROBATCHES // self._size))
        self._loads = np.zeros(self._world_size, dtype=np.int64)
        self._next = -1

    def table(self, first: int, last: int) -> Ints:
        """Return microbatches `first` to `last` - 1 by rank, shape (W, most).

        They are counted from `first`; −1 if a rank has none.
        """
        since = first // self._size % self._together
        if since == 0:
            self._loads[:] = 0
        elif first != self._next:
            self._loads[:] = 0
            for earlier in range(first - since * self._size, first, self._size):
                self._deal(earlier, earlier + self._size)
        self._next = last
        return self._deal(first, last)

    def _deal(self, first: int, last: int) -> Ints:
        loads = [0] * self._world_size
        costs = microbatch_costs(self._columns, self._balance, self._cost, slice(first, last))
        parts = balanced(costs, loads)
        turn = (np.arange(self._world_size) - first // self._size) % self._world_size
        ranks = np.lexsort((turn, self._loads))
        falling = np.argsort(-np.array(loads, dtype=np.int64), kind="stable")
        table = np.empty_like(parts)
        table[ranks] = parts[falling]
        self._loads[ranks] += np.array(loads, dtype=np.int64)[falling]
        # load common to all ranks is irrelevant, and would eventually overflow 64 bits
        self._loads -= self._loads.min()
        return table
