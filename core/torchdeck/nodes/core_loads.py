"""How busy each core of this machine is."""

from __future__ import annotations

from typing import Any

import psutil


class CoreLoads:
    """Percent of each core, in the system's order, over the time since the last look."""

    def __init__(self) -> None:
        self._before = _ticks()

    def look(self) -> tuple[float, ...]:
        """One number a core, from 0 to 100; none where cores have come or gone, or no time has passed."""
        before, self._before = self._before, _ticks()
        if len(before) != len(self._before):
            return ()
        return core_loads(before, self._before)


def core_loads(before: list[tuple[float, float]], now: list[tuple[float, float]]) -> tuple[float, ...]:
    """Percent from (busy, all) seconds of each core at two moments; none where no time is between them."""
    passed = [(new[0] - old[0], new[1] - old[1]) for old, new in zip(before, now, strict=True)]
    if not any(whole > 0 for _, whole in passed):
        return ()
    return tuple(100.0 * min(1.0, max(0.0, busy) / whole) if whole > 0 else 0.0 for busy, whole in passed)


def _ticks() -> list[tuple[float, float]]:
    """(busy, all) seconds of each core since boot."""
    return [_busy_and_all(times) for times in psutil.cpu_times(percpu=True)]


def _busy_and_all(times: Any) -> tuple[float, float]:
    """Of psutil's named tuple: what guests take is counted as user time already."""
    whole = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return whole - times.idle - getattr(times, "iowait", 0.0), whole
