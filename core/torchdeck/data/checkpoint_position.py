"""Where training is in a batch plan, in a file; and what is left of the plan from there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.contract.atomic import write_json
from torchdeck.contract.bounded_json import JsonError, read_json_file
from torchdeck.data.checked import checked_rank, whole_number
from torchdeck.data.order import PositionError, position_count, position_counts

if TYPE_CHECKING:
    from torchdeck.data.batch_plan.columns import Microbatch
    from torchdeck.data.batch_plan.plan import BatchPlan

_FILE_LIMIT = 64 * 1024
_FIELDS = ("epoch", "microbatch_idx", "global_step")


@dataclass(frozen=True)
class CheckpointPosition:
    """What is used up of a batch plan: all epochs before `epoch`, and of it the first `microbatch_idx`.

    Counted in the whole plan's order, over all ranks together, it is free of world size and accumulation.

    Raises:
        PositionError: a field is no whole number from 0.
    """

    epoch: int = 0
    """Epochs finished."""
    microbatch_idx: int = 0
    """Microbatches of the current epoch that count already: the index of the next one."""
    global_step: int = 0
    """Optimizer steps done since the very start."""

    def __post_init__(self) -> None:
        for name in _FIELDS:
            position_count(name, getattr(self, name))

    def to_json(self) -> dict[str, int]:
        return {"v": 1, **{name: getattr(self, name) for name in _FIELDS}}

    @classmethod
    def from_json(cls, value: Any) -> CheckpointPosition:
        """The position in `value`.

        Raises:
            PositionError: it is not a position, or one of a newer Torchdeck.
        """
        return cls(*position_counts(value, _FIELDS))

    def save(self, path: str | Path) -> None:
        """Replace the file by this position, in one step and durably; its folder must exist.

        Raises:
            OSError: the old file is then still what it was.
        """
        write_json(Path(path), self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> CheckpointPosition:
        """The position in a file.

        Raises:
            OSError: the file cannot be read.
            PositionError: it does not hold a position, is cut short, or of a newer Torchdeck.
        """
        try:
            return cls.from_json(read_json_file(Path(path), limit=_FILE_LIMIT))
        except PositionError as error:
            raise PositionError(f"{path}: {error}") from None
        except JsonError:
            raise PositionError(f"{path} is not a saved position: it holds no whole JSON value") from None

    def check(self, plan: BatchPlan) -> None:
        """Raises PositionError unless this can be a position in `plan`; its very end is one."""
        from torchdeck.data.batch_plan.steps import PlanPosition

        PlanPosition(self.epoch, self.microbatch_idx, self.global_step).check(plan)

    def advanced(self, plan: BatchPlan, microbatches: int) -> CheckpointPosition:
        """The position one optimizer step later.

        Args:
            plan: the whole plan.
            microbatches: of all ranks in a step (world size × accumulation); the last step of an epoch takes
                what is left.

        Raises:
            ValueError: microbatches is less than 1.
            PositionError: this is no position in the plan, or the plan is over.
        """
        whole_number("microbatches", microbatches, 1)
        self.check(plan)
        if self.epoch == plan.epochs:
            raise PositionError(f"the batch plan is over: it has {plan.epochs} epochs")
        used = self.microbatch_idx + microbatches
        if used >= plan.microbatches(self.epoch):
            return CheckpointPosition(self.epoch + 1, 0, self.global_step + 1)
        return CheckpointPosition(self.epoch, used, self.global_step + 1)


def iter_from_checkpoint(
    plan: BatchPlan, position: CheckpointPosition, *, rank: int = 0, world_size: int = 1
) -> Iterator[tuple[int, int, Microbatch]]:
    """What is left of `plan`, as (epoch, index in the epoch, microbatch).

    Rank i takes the microbatches i, i + world_size, … counted from the position on, and in later epochs from
    their beginning, as `plan_steps` deals them out without a balance. Whatever the world size was before, all
    ranks together take every remaining microbatch once.

    Args:
        plan: the whole plan.
        position: where to go on.
        rank: whose microbatches; by default all of them.
        world_size: ranks from now on.

    Raises:
        ValueError: there is no such rank.
        PositionError: the position does not fit the plan.
    """
    rank = checked_rank(rank, world_size)
    position.check(plan)
    return _dealt(plan, position, rank, world_size)


def _dealt(
    plan: BatchPlan, position: CheckpointPosition, rank: int, world_size: int
) -> Iterator[tuple[int, int, Microbatch]]:
    first = position.microbatch_idx
    for epoch in range(position.epoch, plan.epochs):
        # the others' microbatches are not even looked at: of thousands of ranks each has few
        for index in range(first + rank, plan.microbatches(epoch), world_size):
            yield epoch, index, plan.microbatch(epoch, index)
        first = 0
