"""How long to train between checkpoints, from what one costs and how often runs fail."""

from __future__ import annotations

import math

_WEIGHT = 0.5
"""Of a new measurement in the smoothed cost: an outlier fades by half with every save after it."""


def young_interval(stall: float, mtbf: float) -> float:
    """Seconds between checkpoints that lose the least time, to first order: √(2 · stall · mtbf).

    J. W. Young, "A first order approximation to the optimum checkpoint interval", Communications of the ACM
    17 (9), 1974. It holds for a stall far below the mean time between failures, which `max_stall` sees to.

    Args:
        stall: seconds of training that one checkpoint costs.
        mtbf: mean time between failures of the whole run, seconds.
    """
    return math.sqrt(2.0 * stall * mtbf)


class SaveInterval:
    """The interval between checkpoints, measured anew with every one.

    Young's, but never so short that saving takes more than `max_stall` of the time, nor shorter than a save
    takes to be written: one in the background would be waited for.

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
        """From the end of one save to the beginning of the next; None before the first was measured."""
        if self._stall is None:
            return None
        # stall / (stall + interval) ≤ max_stall
        bearable = self._stall * (1.0 / self._max_stall - 1.0)
        return max(young_interval(self._stall, self._mtbf), bearable, self._written)

    def stalled(self, seconds: float) -> float:
        """A save stopped training for so long; the interval that follows from it."""
        self._stall = _smoothed(self._stall, seconds)
        return self.seconds or 0.0

    def written(self, seconds: float) -> None:
        """A save took so long until it was complete."""
        self._written = _smoothed(self._written or None, seconds)


def _smoothed(before: float | None, now: float) -> float:
    return now if before is None else before + _WEIGHT * (now - before)
