"""Axis ranges that change in steps, not with each point."""

from __future__ import annotations

import math

from torchdeck.runs.plots.units import Unit, tick_step

_ENDS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_LEAST_USE = 0.4
"""Fraction of a range that its content must fill for the range to stay."""


def stepped_end(start: float, end: float) -> float:
    """Return a rounded end beyond `end`; it stays the same until `end` reaches it."""
    span = end - start
    if not span > 0:
        return start + 1.0
    decade = 10.0 ** math.floor(math.log10(span))
    return start + next((step * decade for step in _ENDS if step * decade >= span * (1 - 1e-12)), 10 * decade)


def stepped_range(
    low: float, high: float, before: tuple[float, float] | None, unit: Unit = "", most: int = 4
) -> tuple[float, float]:
    """Return a range of whole tick steps around `low` to `high`; `before` as long as it fits."""
    if before is not None:
        span = before[1] - before[0]
        if before[0] <= low and high <= before[1] and high - low >= _LEAST_USE * span:
            return before
    if low == high:
        pad = abs(low) * 0.1 or 1.0
        low, high = (0.0 if 0 <= low - pad < pad else low - pad), high + pad
    if 0 < low < 0.35 * high:
        low = 0.0
    if unit == "%" and low >= 0 and high <= 100:
        return 0.0, 100.0
    step = tick_step(high - low, most, unit, max(abs(low), abs(high)))
    found = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    return found if found[1] > found[0] else (found[0], found[0] + step)


def stepped_log_range(low: float, high: float, before: tuple[float, float] | None) -> tuple[float, float]:
    """Return a range between numbers 1, 2 or 5 × 10^n around positive `low` to `high`."""
    if before is not None and before[0] <= low and high <= before[1]:
        used = math.log(high / low) if high > low else 0.0
        if used >= _LEAST_USE * math.log(before[1] / before[0]):
            return before
    found = _at_most(low), _at_least(high)
    return found if found[1] > found[0] else (found[0] / 2, found[1] * 2)


def _at_most(value: float) -> float:
    decade = 10.0 ** math.floor(math.log10(value))
    return next(step * decade for step in (5.0, 2.0, 1.0, 0.5) if step * decade <= value * (1 + 1e-9))


def _at_least(value: float) -> float:
    decade = 10.0 ** math.floor(math.log10(value))
    return next(step * decade for step in (1.0, 2.0, 5.0, 10.0) if step * decade >= value * (1 - 1e-9))
