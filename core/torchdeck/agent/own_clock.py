"""The agent's clock leaves out time in which the agent did not run: it was stopped, or the machine slept.

In such a gap nothing was observed: it proves neither that a rank hangs nor that another node is silent.
Its first second counts: a loop that a slow disk holds up again and again still has its limits.
"""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple

GAP = 3.0
"""Seconds between two readings that count as a gap; the agent's loop reads several times a second."""
COUNTED = 1.0
"""Seconds of a gap that still count on the clock."""
KEPT = 16
"""Gaps that are remembered."""


class _Span(NamedTuple):
    begin: float
    end: float


class OwnClock:
    """Monotonic seconds without gaps; read it at least once a second."""

    def __init__(self) -> None:
        self._lost = 0.0
        self._read = self._readings()
        self._gaps: deque[tuple[_Span, _Span]] = deque(maxlen=KEPT)
        """In monotonic and in unix seconds."""
        self._unreported = 0.0

    def __call__(self) -> float:
        before, self._read = self._read, self._readings()
        # of the three only the boot clock runs in a suspended machine and is never set
        passed = self._read[0] - before[0]
        if passed >= GAP:
            self._lost += max(0.0, self._read[1] - before[1] - COUNTED)
            begins = before[1] + COUNTED, before[2] + COUNTED
            self._gaps.append((_Span(begins[0], self._read[1]), _Span(begins[1], self._read[2])))
            self._unreported += passed
        return self._read[1] - self._lost

    def since(self, moment: float) -> float:
        """Seconds without gaps since `moment` of the monotonic clock, as of the last reading."""
        return _without(moment, self._read[1], [monotonic for monotonic, _ in self._gaps])

    def since_wall(self, moment: float) -> float:
        """The same for unix seconds."""
        return _without(moment, self._read[2], [wall for _, wall in self._gaps])

    def take_gap(self) -> float:
        """Seconds of gaps that were not reported yet; 0 for none."""
        found, self._unreported = self._unreported, 0.0
        return found

    @staticmethod
    def _readings() -> tuple[float, float, float]:
        return time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic(), time.time()


def _without(begin: float, end: float, gaps: list[_Span]) -> float:
    lost = sum(max(0.0, min(gap.end, end) - max(gap.begin, begin)) for gap in gaps)
    return max(0.0, end - begin - lost)
