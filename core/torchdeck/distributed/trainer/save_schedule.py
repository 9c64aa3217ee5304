"""Schedule of checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from torchdeck.data.step_order import DataPosition
from torchdeck.distributed.rank_settings import CheckpointSettings
from torchdeck.distributed.trainer.step import StepResult

_FIRST_STEPS = 10
"""With every = "auto", the number of steps before the first checkpoint, which measures its cost."""


class SaveSchedule:
    """Decides after which steps training saves; the same on every rank.

    Every rank computes a fixed schedule itself. Only rank 0 decides from measured times: it requests a
    checkpoint in a step, and all ranks learn of it in the step's own reduction.

    Args:
        settings: interval in steps or epochs, or the rule.
        leads: this is rank 0.
        clock: seconds, monotonic.
    """

    def __init__(
        self, settings: CheckpointSettings, *, leads: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._every = settings.every
        self._every_epochs = settings.every_epochs
        self._interval: SaveInterval | None = None
        if settings.auto and leads:
            self._interval = SaveInterval(mtbf=settings.mtbf * 3600, max_stall=settings.max_stall)
        self._clock = clock
        self._steps = 0
        self._last_save = clock()

    def wished(self, step: int) -> bool:  # noqa: ARG002 - time and the number of calls decide
        """Return whether this rank requests a checkpoint after `step`; called once, before the step."""
        if self._interval is None:
            return False
        self._steps += 1
        if self._interval.seconds is None:
            return self._steps >= _FIRST_STEPS
        return self._clock() - self._last_save >= self._interval.seconds

    def foreseen(self, after: DataPosition, epoch: int) -> bool:
        """Return whether a checkpoint follows a step of `epoch` that ends at `after`, whatever is
        measured.
        """
        by_step = self._every is not None and after.step % self._every == 0
        ends_epoch = after.epoch > epoch
        return by_step or (
            self._every_epochs is not None and ends_epoch and after.epoch % self._every_epochs == 0
        )

    def due(self, result: StepResult, after: DataPosition) -> bool:
        """Return whether to save after the step that gave `result` and ended at `after`."""
        return result.save or self.foreseen(after, result.epoch)

    def saved(self, stall: float) -> float | None:
        """Record a checkpoint, and how many seconds it blocked training.

        Returns:
            Seconds until the next one if they are derived, on rank 0; otherwise None.
        """
        self._last_save = self._clock()
        if self._interval is None:
            return None
        return self._interval.stalled(stall)

    def written(self, seconds: float) -> None:
        """Record how long a save took to complete."""
        if self._interval is not None:
            self._interval.written(seconds)


# Training time between checkpoints, from the cost of one and how often runs fail.

_WEIGHT = 0.5
"""Weight of a new measurement in the smoothed cost: an outlier fades by half with every later save."""


def young_interval(stall: float, mtbf: float) -> float:
    """Return the seconds between checkpoints that lose the least time, to first order: √(2 · stall · mtbf).

    J. W. Young, "A first order approximation to the optimum checkpoint interval", Communications of the ACM
    17 (9), 1974. Valid if the stall is far below the mean time between failures, which `max_stall` ensures.

    Args:
        stall: seconds of training that one checkpoint costs.
        mtbf: mean time between failures of the whole run, seconds.
    """
    return math.sqrt(2.0 * stall * mtbf)


class SaveInterval:
    """Interval between checkpoints, recalculated after every one.

    Young's interval, but never so short that saving takes more than `max_stall` of the time. Nor is it
    shorter than the time to write a save: training would wait for the one in the background.

    Args:
        mtbf: mean time between failures of the whole run, seconds.
        max_stall: largest fraction of all time that saving may take, above 0 and below 1.
    """

    def __init__(self, *, mtbf: float, max_stall: float) -> None:
        self._mtbf = mtbf
        self._max_stall = max_stall
        self._stall: float | None = None
        self._written = 0.0

    @property
    def seconds(self) -> float | None:
        """Return the seconds from the end of one save to the beginning of the next; None before the first
        measurement.
        """
        if self._stall is None:
            return None
        # stall / (stall + interval) ≤ max_stall
        bearable = self._stall * (1.0 / self._max_stall - 1.0)
        return max(young_interval(self._stall, self._mtbf), bearable, self._written)

    def stalled(self, seconds: float) -> float:
        """Record how long a save blocked training; return the resulting interval."""
        self._stall = _smoothed(self._stall, seconds)
        return self.seconds or 0.0

    def written(self, seconds: float) -> None:
        """Record how long a save took to complete."""
        self._written = _smoothed(self._written or None, seconds)


def _smoothed(before: float | None, now: float) -> float:
    return now if before is None else before + _WEIGHT * (now - before)
