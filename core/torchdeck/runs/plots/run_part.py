"""Curves, bands and gaps from the columns of a run."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from torchdeck.metrics import Owner, Window
from torchdeck.runs.folders.rank_nodes import rank_words
from torchdeck.runs.plots.bands import MOST_CURVES, band, spread
from torchdeck.runs.plots.catalogue import Metric
from torchdeck.runs.plots.exchange import Array, Band, Curve, PlotData
from torchdeck.runs.plots.mapping import Mapping
from torchdeck.runs.plots.run_reader import RunReader, Span
from torchdeck.runs.plots.stretches import thinned
from torchdeck.runs.plots.x_axis import XKind, by_time

_AVERAGE_FINER = 2
"""Factor by which the average's columns are finer than the plot's: it cannot fall back to single rows."""


_LOG_FINER = 8
"""Factor by which evenly spaced columns are finer on a logarithmic axis."""


def window_of(weight: float) -> int:
    """Return the width in rows of the window that smooths about as much as an average of this weight."""
    return max(1, round(1 / (1 - weight)))


@dataclass(frozen=True)
class RunPart:
    """Contribution of one run to one plot."""

    run: RunReader
    mapping: Mapping
    kind: XKind
    metric: Metric
    span: Span
    windows: Dict[Owner, Dict[str, Window]]
    smoothing: float
    label: str
    """Name of the run; empty if it is the only one."""
    number: int
    by_window: bool = False

    def drawn(self) -> tuple[list[Curve], list[Band]]:
        """Return curves if they can be told apart, else one band per metric."""
        series = [
            (name, owner)
            for name in self.metric.names
            for owner, windows in self.windows.items()
            if name in windows
        ]
        if len(series) <= MOST_CURVES:
            colours = self.run.colours(self.metric)
            # colours of a single node start from the first: there are too few to keep each rank's own
            keep = len(colours) <= MOST_CURVES
            return [
                self._curve(name, owner, len(series), colours.get((name, owner), at) if keep else at)
                for at, (name, owner) in enumerate(series)
            ], []
        bands = []
        for at, name in enumerate(self.metric.names):
            owners = [owner for owner, windows in self.windows.items() if name in windows]
            if owners:
                windows = [self.windows[owner][name] for owner in owners]
                members = [self._owner_text(owner) for owner in owners]
                label, colour = self._look(name, None, len(self.metric.names), at)
                x = self._x((windows[0].edges[:-1] + windows[0].edges[1:]) / 2)
                made = band(label, colour, x, members, windows)
                bands.append(replace(made, breaks=self._breaks(name, owners[0])))
        return [], bands

    def medians(self) -> list[Curve]:
        """Return one curve per metric: the only rank's, or the median of all."""
        found = []
        for at, name in enumerate(self.metric.names):
            owners = [owner for owner, windows in self.windows.items() if name in windows]
            if len(owners) == 1:
                found.append(self._curve(name, owners[0], len(self.metric.names), at))
            elif owners:
                windows = [self.windows[owner][name] for owner in owners]
                x = self._x((windows[0].edges[:-1] + windows[0].edges[1:]) / 2)
                label, _ = self._look(name, None, len(self.metric.names), at)
                both = band(label, self.number, x, [self._owner_text(owner) for owner in owners], windows)
                breaks = self._breaks(name, owners[0])
                found.append(Curve(label, self.number, both.x, both.median, breaks=breaks))
        return found

    def odd(self) -> tuple[Array, int]:
        """Return x of the columns with non-finite values, and the number of such values."""
        total, count = np.zeros(self.span.columns, np.int64), 0
        edges: Array = np.zeros(0)
        for windows in self.windows.values():
            # other plots' metrics are read along
            for window in (windows[name] for name in self.metric.names if name in windows):
                edges = window.edges
                if window.odd.any():
                    total += window.odd
        count = int(total.sum())
        if not count:
            return np.empty(0), 0
        middles = (edges[:-1] + edges[1:]) / 2
        return self._x(middles[total > 0]), count

    def _curve(self, name: str, owner: Owner, of: int, at: int) -> Curve:
        window = self.windows[owner][name]
        label, colour = self._look(name, owner, of, at)
        short = self._text(name, owner) if self.label and of > 1 else ""
        rows = None
        if window.counts.sum() <= 2 * self.span.columns:
            rows = self.run.rows(name, owner, self.span)
        if rows is not None:
            native = rows.times if self.span.axis == "time" else rows.steps.astype(float)
            x, y = self._x(native), np.where(np.isfinite(rows.values), rows.values, np.nan)
        else:
            x, y = self._columns(window)
        latest = None
        if self.run.metrics.until is None:
            newest = self.run.latest(name, owner)
            latest = None if newest is None else newest.value
        elif np.isfinite(y).any():
            latest = float(y[np.isfinite(y)][-1])
        dashed = bool(self.label) and self.metric.names.index(name) > 0
        breaks = self._breaks(name, owner)
        if not self.smoothing or not len(x) or self.metric.unit == "count":
            return Curve(label, colour, x, y, None, rows is not None, latest, dashed, breaks, short)
        average = self._average(name, owner)
        return Curve(label, colour, *average, (x, y), rows is not None, latest, dashed, breaks, short)

    def _average(self, name: str, owner: Owner) -> tuple[Array, Array]:
        span = self.span
        columns = _AVERAGE_FINER * span.columns
        if self.by_window:
            means = self.run.window_means(name, owner, span, window_of(self.smoothing))
            native = means.times if span.axis == "time" else means.steps.astype(float)
            x, y = thinned(native, _finite(means.values), columns * (_LOG_FINER if span.log else 1))
            return self._x(x), y
        finer = Span(span.axis, span.low, span.high, columns, span.log)
        return self._columns(self.run.smoothed(name, owner, finer, self.smoothing))

    def _breaks(self, name: str, owner: Owner) -> tuple[float, ...]:
        """Return x of the starts of later attempts, if x is a time."""
        if not by_time(self.kind):
            return ()
        found = self.run.breaks(name, owner, self.span)
        return tuple(self._x(np.array(found)).tolist()) if found else ()

    def _columns(self, window: Window) -> tuple[Array, Array]:
        """Return minimum and maximum of each column one after the other; once if they are equal."""
        filled = np.flatnonzero(window.counts > 0)
        middles = self._x((window.edges[filled] + window.edges[filled + 1]) / 2)
        low, high = _finite(window.low[filled]), _finite(window.high[filled])
        once = low == high
        x, y = np.repeat(middles, 2), np.empty(2 * len(filled))
        y[0::2], y[1::2] = low, high
        kept = np.ones(len(y), bool)
        kept[1::2] = ~once
        return x[kept], y[kept]

    def _x(self, native: Array) -> Array:
        if self.span.axis == "time" and not by_time(self.kind):
            return self.mapping.x_of_times(self.kind, native)
        return self.mapping.x_of(self.kind, native)

    def _owner_text(self, owner: Owner) -> str:
        return rank_words(owner, self.run.rank_nodes) if isinstance(owner, int) else owner

    def _look(self, name: str, owner: Owner | None, of: int, at: int) -> tuple[str, int]:
        """Return a series' name in the legend, and its colour."""
        text = self._text(name, owner)
        if not self.label:
            return text, at
        return (f"{self.label} {text}" if of > 1 else self.label), self.number

    def _text(self, name: str, owner: Owner | None) -> str:
        """Return the text that distinguishes a series within its run."""
        text = self.metric.labels[self.metric.names.index(name)]
        if owner is None or len(self.windows) < 2:
            return text
        whose = self._owner_text(owner)
        return f"{whose} {text}" if len(self.metric.names) > 1 else whose


def merged(parts: Sequence[RunPart], *, log: bool = False) -> PlotData:
    """Merge the contributions of all runs into one plot; those of many runs as their mean and deviation.

    Args:
        parts: one per run.
        log: whether the x axis is logarithmic.
    """
    curves: list[Curve] = []
    bands: list[Band] = []
    if len({part.number for part in parts}) > MOST_CURVES:
        bands = _spreads(parts, log=log)
    odd: list[Array] = []
    count = 0
    for part in parts:
        if not bands or not bands[0].spread:
            drawn, bundled = part.drawn()
            curves += drawn
            bands += bundled
        places, found = part.odd()
        odd.append(places)
        count += found
    levels = parts[0].run.levels(parts[0].metric) if len(parts) == 1 else ()
    return PlotData(
        tuple(curves),
        tuple(bands),
        levels,
        *_extremes(curves, bands),
        np.concatenate(odd) if odd else np.empty(0),
        count,
    )


def _spreads(parts: Sequence[RunPart], *, log: bool) -> list[Band]:
    """Return a band per metric over all runs; of the ranks of a run, their median counts."""
    found: dict[int, list[Curve]] = {}
    for part in parts:
        for at, curve in enumerate(part.medians()):
            if np.isfinite(curve.y).any():
                found.setdefault(at, []).append(replace(curve, label=part.label))
    labels, columns = parts[0].metric.labels, parts[0].span.columns
    return [spread(labels[at], at, curves, columns, log=log) for at, curves in sorted(found.items())]


def with_baseline(plot: PlotData, curves: Sequence[Curve]) -> PlotData:
    """Return the plot with a baseline's curves under its own."""
    dashed = tuple(replace(curve, raw=None, dashed=True) for curve in curves)
    every = (*dashed, *plot.curves)
    low, high, least = _extremes(every, plot.bands)
    return replace(plot, curves=every, low=low, high=high, least_positive=least)


def _extremes(
    curves: Sequence[Curve], bands: Sequence[Band]
) -> tuple[float | None, float | None, float | None]:
    """Return the least, the greatest and the least positive finite value; None if there is none."""
    values = [curve.y for curve in curves] + [curve.raw[1] for curve in curves if curve.raw is not None]
    values += [end for found in bands for end in (found.low, found.high)]
    joined = np.concatenate(values) if values else np.empty(0)
    finite = joined[np.isfinite(joined)]
    positive = finite[finite > 0]
    return (
        float(finite.min()) if len(finite) else None,
        float(finite.max()) if len(finite) else None,
        float(positive.min()) if len(positive) else None,
    )


def _finite(values: NDArray[np.float64]) -> Array:
    return np.where(np.isfinite(values), values, np.nan)
