"""Ranks that do a thing together and all learn whether it succeeded on every one of them."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException

from torchdeck.distributed.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.refusal import refusal

T = TypeVar("T")


class Peers:
    """All ranks of the run.

    Two or more talk over a gloo group of their own: a checkpoint's files may take longer to write than the
    training's timeout allows, and its bookkeeping must not touch the accelerator.
    """

    def __init__(self, rank: int, world_size: int, timeout: float) -> None:
        self.rank = rank
        self.world_size = world_size
        self._timeout = timeout
        self._group: dist.ProcessGroup | None = None

    @property
    def group(self) -> dist.ProcessGroup | None:
        """The gloo group; None for a single rank. Made on first use, which has to be everywhere at once.

        Raises:
            CheckpointError: torch.distributed is not initialised for this world size, or a rank is gone.
        """
        if self.world_size == 1:
            return None
        if self._group is None:
            self._group = self._make_group()
        return self._group

    def join(self) -> None:
        """Make the group, in the thread that trains: making one is a collective of all of the rank's groups.

        Raises:
            CheckpointError: as `group`.
        """
        _ = self.group

    def _make_group(self) -> dist.ProcessGroup:
        if not dist.is_initialized() or dist.get_world_size() != self.world_size:
            raise CheckpointError(
                f"checkpoints of {self.world_size} ranks need torch.distributed initialised for as many"
            )
        try:
            # the training's group notices at once when a rank is gone; making one waits out its whole limit
            dist.barrier()
            timeout = dt.timedelta(seconds=self._timeout)
            group: dist.ProcessGroup = dist.new_group(backend="gloo", timeout=timeout)
            return group
        except RuntimeError as error:
            raise CheckpointError(
                f"joining the other ranks for a checkpoint failed: {sentence(error)}"
            ) from error

    def together(self, what: str, action: Callable[[], T]) -> list[T]:
        """Each rank's result of `action`, by rank; every rank waits until all have theirs.

        Args:
            what: names the step in messages, as in "hashing the files".
            action: this rank's part; must not talk to other ranks.

        Raises:
            CheckpointError: `action` failed on at least one rank (raised on every rank, with the same
                sentence), or a
                rank is gone.
        """
        outcome: tuple[bool, Any]
        try:
            outcome = (True, action())
        except Exception as error:  # noqa: BLE001 - whatever it was, the other ranks wait to hear of it
            outcome = (False, sentence(error))
        outcomes = self._gather(what, outcome)
        failures = {rank: why for rank, (good, why) in enumerate(outcomes) if not good}
        if failures:
            raise CheckpointError(f"{what} failed: {_combine(failures, self.world_size)}")
        return [cast("T", value) for _, value in outcomes]

    def first(self, what: str, action: Callable[[], T]) -> T:
        """Rank 0's result of `action`, which no other rank does. Raises as `together`."""
        return cast("T", self.together(what, action if self.rank == 0 else lambda: None)[0])

    def collectively(self, what: str, action: Callable[[], None]) -> None:
        """A step of torch.distributed.checkpoint, which tells every rank of a failure on any.

        Raises:
            CheckpointError: it failed. Where DCP did not agree on that, this rank alone raises: it must not
                wait for
                ranks that are in another collective, and they notice when it goes.
        """
        try:
            action()
        except CheckpointException as error:
            failures = {rank: sentence(cause) for rank, (cause, _) in error.failures.items()}
            raise CheckpointError(f"{what} failed: {_combine(failures, self.world_size)}") from error
        except Exception as error:
            raise CheckpointError(f"{what} failed on rank {self.rank}: {sentence(error)}") from error

    def _gather(self, what: str, value: tuple[bool, Any]) -> list[tuple[bool, Any]]:
        group = self.group
        if group is None:
            return [value]
        values: list[Any] = [None] * self.world_size
        try:
            dist.all_gather_object(values, value, group=group)
        except RuntimeError as error:
            raise CheckpointError(f"{what} failed: another rank is gone ({sentence(error)})") from error
        return values


def sentence(error: BaseException) -> str:
    """An exception as part of one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, pickle.UnpicklingError):
        return refusal(error)
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    return text if isinstance(error, CheckpointError) else f"{type(error).__name__}: {text}"


def _combine(failures: dict[int, str], world_size: int) -> str:
    reasons = set(failures.values())
    if len(reasons) == 1 and len(failures) == world_size:
        return reasons.pop()
    return "; ".join(f"rank {rank}: {why}" for rank, why in sorted(failures.items()))
