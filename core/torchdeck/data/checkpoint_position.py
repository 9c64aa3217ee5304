"""Training position in a batch plan, stored in a file, and the remainder of the plan from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.contract.arguments.checked_call import arguments, checked_class
from torchdeck.contract.atomic import write_json
from torchdeck.contract.bounded_json import JsonError, read_json_file
from torchdeck.data.checked import checked_rank, whole_number
from torchdeck.data.order import PositionError, position_count, position_counts

if TYPE_CHECKING:
    from torchdeck.data.batch_plan.columns import Microbatch
    from torchdeck.data.batch_plan.plan import BatchPlan

_FILE_LIMIT = 64 * 1024
_FIELDS = ("epoch", "microbatch_idx", "global_step")


@checked_class
@dataclass(frozen=True)
class CheckpointPosition:
    """Position in a batch plan: all epochs before `epoch` are done, and the first `microbatch_idx`
    microbatches of it.

    It is counted in the order of the whole plan, over all ranks, so it does not depend on world size or
    accumulation.

    Raises:
        PositionError: a field is not a whole number of 0 or more.
    """

    epoch: int = 0
    """Number of finished epochs."""
    microbatch_idx: int = 0
    """Number of finished microbatches of the current epoch: the index of the next one."""
    global_step: int = 0
    """Number of optimizer steps since the start of training."""

    def __post_init__(self) -> None:
        for name in _FIELDS:
            position_count(name, getattr(self, name))

    def to_json(self) -> dict[str, int]:
        return {"v": 1, **self.to_dict()}

    @classmethod
    @arguments(own_checks=True)
    def from_json(cls, value: Any) -> CheckpointPosition:
        """Read a position from `value`.

        Raises:
            PositionError: it is not a position, or was written by a newer Torchdeck.
        """
        return cls(*position_counts(value, _FIELDS))

    def to_dict(self) -> dict[str, int]:
        """The fields by name."""
        return {name: getattr(self, name) for name in _FIELDS}

    @classmethod
    @arguments(own_checks=True)
    def from_dict(cls, value: Mapping[str, Any]) -> CheckpointPosition:
        """Return the position with the fields of `value`; those that it lacks are 0.

        `to_json` values are accepted, too: a format version is checked if there is one.

        Raises:
            PositionError: a field is unknown or wrong, or it was written by a newer Torchdeck.
        """
        if not isinstance(value, Mapping):
            raise PositionError(f"a position is a mapping with {', '.join(_FIELDS)}, not {value!r}")
        return cls.from_json({"v": 1, **dict.fromkeys(_FIELDS, 0), **value})

    @arguments(own_checks=True)
    def save(self, path: str | Path) -> None:
        """Replace the file by this position, atomically and durably. Its folder must exist.

        Raises:
            OSError: it cannot be written; the old file is unchanged.
        """
        write_json(Path(path), self.to_json())

    @classmethod
    @arguments(own_checks=True)
    def load(cls, path: str | Path) -> CheckpointPosition:
        """Read a position from a file.

        Raises:
            OSError: the file cannot be read.
            PositionError: it does not contain a position, is truncated, or was written by a newer
                Torchdeck.
        """
        return _read(path, cls.from_json)

    @arguments(own_checks=True)
    def check(self, plan: BatchPlan) -> None:
        """Raise PositionError if this is not a position in `plan`. The end of the plan is one."""
        from torchdeck.data.batch_plan.plan_steps import PlanPosition

        PlanPosition(self.epoch, self.microbatch_idx, self.global_step).check(plan)

    @arguments(own_checks=True)
    def advanced(self, plan: BatchPlan, microbatches: int) -> CheckpointPosition:
        """Return the position after one more optimizer step.

        Args:
            plan: the whole plan.
            microbatches: microbatches per step of all ranks (world size × accumulation). The last step of
                an epoch takes the rest.

        Raises:
            ValueError: microbatches is less than 1.
            PositionError: this is not a position in the plan, or the plan is over.
        """
        whole_number("microbatches", microbatches, 1)
        self.check(plan)
        if self.epoch == plan.epochs:
            raise PositionError(f"the batch plan is over: it has {plan.epochs} epochs")
        used = self.microbatch_idx + microbatches
        if used >= plan.microbatches(self.epoch):
            return CheckpointPosition(self.epoch + 1, 0, self.global_step + 1)
        return CheckpointPosition(self.epoch, used, self.global_step + 1)


@arguments(own_checks=True)
def save_checkpoint_position(position: CheckpointPosition, path: str | Path) -> None:
    """Replace the file by `position`, atomically and durably; its folder is created if missing.

    Raises:
        OSError: it cannot be written; the old file is unchanged.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    position.save(path)


@arguments(own_checks=True)
def load_checkpoint_position(path: str | Path) -> CheckpointPosition:
    """Read a position from a file, also one without format version, as other programs write it.

    Fields that such a file lacks are 0.

    Raises:
        OSError: the file cannot be read.
        PositionError: it does not contain a position, is truncated, or was written by a newer Torchdeck.
    """
    return _read(path, CheckpointPosition.from_dict)


def _read(path: str | Path, make: Callable[[Any], CheckpointPosition]) -> CheckpointPosition:
    try:
        return make(read_json_file(Path(path), limit=_FILE_LIMIT))
    except PositionError as error:
        raise PositionError(f"{path}: {error}") from None
    except JsonError:
        raise PositionError(f"{path} is not a saved position: it holds no whole JSON value") from None


@arguments(own_checks=True)
def iter_from_checkpoint(
    plan: BatchPlan, position: CheckpointPosition | None = None, *, rank: int = 0, world_size: int = 1
) -> Iterator[tuple[int, int, Microbatch]]:
    """Yield the rest of `plan` as (epoch, index in the epoch, microbatch).

    Rank i takes the microbatches i, i + world_size, … from the position on, and in later epochs from their
    start, as `plan_steps` assigns them without a balance. Whatever the world size was before, all ranks
    together take every remaining microbatch once.

    Args:
        plan: the whole plan.
        position: where to continue. Default: the start of the plan.
        rank: rank whose microbatches to yield. Default: all ranks.
        world_size: number of ranks from now on.

    Raises:
        ValueError: the rank does not exist.
        PositionError: the position does not match the plan.
    """
    rank = checked_rank(rank, world_size)
    position = position or CheckpointPosition()
    position.check(plan)
    return _dealt(plan, position, rank, world_size)


def _dealt(
    plan: BatchPlan, position: CheckpointPosition, rank: int, world_size: int
) -> Iterator[tuple[int, int, Microbatch]]:
    first = position.microbatch_idx
    for epoch in range(position.epoch, plan.epochs):
        # microbatches of other ranks are not accessed: among thousands of ranks each has few
        for index in range(first + rank, plan.microbatches(epoch), world_size):
            yield epoch, index, plan.microbatch(epoch, index)
        first = 0
