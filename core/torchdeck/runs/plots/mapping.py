"""Conversion between steps, times, tokens and samples of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from torchdeck.metrics import Series
from torchdeck.runs.plots.exchange import Array, Moments
from torchdeck.runs.plots.x_axis import XKind, by_time


def _none() -> Array:
    return np.empty(0)


@dataclass(frozen=True)
class Mapping:
    """Knots of one run; values between two knots are interpolated linearly."""

    start: float = 0.0
    """Unix time of the first row."""
    times: Array = field(default_factory=_none)
    """Times of all attempts, ascending."""
    steps: Array = field(default_factory=_none)
    """Steps at `times`; they go back when a run is resumed."""
    kept_steps: Array = field(default_factory=_none)
    """Steps of the rows that were not superseded, strictly ascending."""
    kept_times: Array = field(default_factory=_none)
    counted_steps: Array = field(default_factory=_none)
    """Steps at which tokens or samples were counted, strictly ascending."""
    counts: Array = field(default_factory=_none)

    @classmethod
    def of(cls, series: Series, kept: Series, counted: Series | None = None) -> Mapping:
        """Create a mapping from rows of a metric with one row per step.

        Args:
            series: rows of all attempts.
            kept: rows without superseded ones.
            counted: rows of the metric that counts tokens or samples, without superseded ones.
        """
        order = np.argsort(series.times, kind="stable")
        steps, which = _ascending(kept.steps.astype(float))
        counted_steps, counts = _none(), _none()
        if counted is not None:
            finite = counted.picked(np.isfinite(counted.values))
            counted_steps, picked = _ascending(finite.steps.astype(float))
            counts = np.maximum.accumulate(finite.values[picked]) if len(picked) else _none()
        return cls(
            float(series.times.min()) if len(series) else 0.0,
            series.times[order],
            series.steps[order].astype(float),
            steps,
            kept.times[which],
            counted_steps,
            counts,
        )

    def x_of(self, kind: XKind, native: Array) -> Array:
        """Return x of rows by their steps, or by their times if x is a time."""
        if kind == "relative":
            return native - self.start
        if kind in ("tokens", "samples"):
            return _stretched(native, self.counted_steps, self.counts)
        return native

    def x_of_times(self, kind: XKind, times: Array) -> Array:
        """Return x of rows without steps, such as a node's series: the training progress at their time."""
        if by_time(kind) or not len(self.times):
            return self.x_of(kind, times)
        return self.x_of(kind, np.interp(times, self.times, self.steps))

    def native_of(self, kind: XKind, x: float) -> float:
        """Return the step at x, or the unix time if x is a time."""
        if kind == "relative":
            return x + self.start
        if kind in ("tokens", "samples"):
            return float(_stretched(np.array([x]), self.counts, self.counted_steps)[0])
        return x

    def time_of_step(self, step: float) -> float:
        """Return the unix time at `step` in the attempt that continued."""
        return float(np.interp(step, self.kept_steps, self.kept_times))

    def moments(self, kind: XKind) -> Moments:
        """Return pairs of x and time."""
        if by_time(kind):
            return Moments(self.x_of(kind, self.times), self.times)
        x = self.x_of(kind, self.kept_steps)
        if len(x) and len(self.kept_times):
            return Moments(x, np.maximum.accumulate(self.kept_times))
        return Moments()


def _ascending(steps: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return sorted unique steps and the indices of their rows; the last row of equal ones."""
    found, reverse = np.unique(steps[::-1], return_index=True)
    return found, len(steps) - 1 - reverse


def _stretched(x: Array, knots: Array, values: Array) -> Array:
    """Interpolate linearly between knots, and extrapolate with the mean slope."""
    if len(knots) < 2:
        return x if not len(knots) else x - knots[0] + values[0]
    slope = (values[-1] - values[0]) / max(knots[-1] - knots[0], 1e-300)
    before, after = np.minimum(x - knots[0], 0), np.maximum(x - knots[-1], 0)
    result: Array = np.interp(x, knots, values) + (before + after) * slope
    return result
