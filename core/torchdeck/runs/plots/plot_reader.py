"""Reader thread's answers to the grid's requests, from the files of one or several runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Dict
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from torchdeck.contract.layout import RunLayout
from torchdeck.metrics import Owner, Window
from torchdeck.runs.folders.rank_nodes import rank_words
from torchdeck.runs.plots.bands import MOST_CURVES, band
from torchdeck.runs.plots.catalogue import LOSS, Metric, catalogue
from torchdeck.runs.plots.exchange import Answer, Array, Band, Curve, Moments, PlotData, Request
from torchdeck.runs.plots.mapping import Mapping
from torchdeck.runs.plots.ranges import stepped_end
from torchdeck.runs.plots.run_reader import RunReader, Span, is_native
from torchdeck.runs.plots.x_axis import XKind, by_time

_LOG_TIME_FACTOR = 8
"""Factor by which evenly spaced columns are finer on a logarithmic time axis."""
_FEWEST_STEPS = 10
"""Minimum length of a live run's step axis."""
_LOG_LEAST = {"relative": 1.0}


class PlotReader:
    """Reader of runs; created in one thread, then used by a single other one."""

    def __init__(self, layouts: Sequence[RunLayout], names: Sequence[str] = ()) -> None:
        """Create a reader of `layouts` without reading.

        Args:
            layouts: the runs.
            names: names in the legend if there are several.
        """
        self._runs = [RunReader(layout) for layout in layouts]
        self._last: Answer | None = None
        self._names = list(names) or [layout.root.name for layout in layouts]

    def answer(self, request: Request) -> Answer:
        """Return the current data: the previous answer if there are no new rows and the request is the same.

        Raises:
            OSError: a file cannot be read.
            NewerFormatError: a run is from a newer Torchdeck.
        """
        rows = sum(run.refresh(request.until) for run in self._runs)
        last = self._last
        problems = tuple(problem for run in self._runs for problem in _problems(run))
        if not rows and last is not None and (last.request, last.problems) == (request, problems):
            return last
        metrics = catalogue(
            self._names_of_ranks(),
            {name for run in self._runs for name in run.metrics.system_names()},
            awaits_loss=not request.ended and any(run.metrics.system_names() for run in self._runs),
            roles=self._runs[0].roles if len(self._runs) == 1 else None,
        )
        if request.node:
            metrics = tuple(metric for metric in metrics if self._has(metric, request.node))
        kind, note = self._kind(request.kind)
        mappings = [run.mapping(kind) for run in self._runs]
        extent = self._extent(kind, mappings, request)
        plots: dict[str, PlotData] = {}
        if extent is not None:
            shown = request.zoom or extent
            plots = self._plots(request, kind, mappings, metrics, shown)
        for run in self._runs:
            run.forget_unused()
        self._last = Answer(
            request,
            kind,
            note,
            metrics,
            plots,
            extent,
            mappings[0].moments(kind) if mappings else Moments(),
            problems,
            rows,
            self._runs[0].nodes if len(self._runs) == 1 else (),
        )
        return self._last

    def _names_of_ranks(self) -> set[str]:
        """Return the ranks' metrics; of several runs by their roles, whatever each program calls them."""
        if len(self._runs) == 1:
            return set(self._runs[0].metrics.names())
        return {name for run in self._runs for name in run.common_names()}

    def _has(self, metric: Metric, node: str) -> bool:
        """Return whether the metric has, or may have, data for a node."""
        return metric.key == LOSS or any(run.owners(metric, node) for run in self._runs)

    def _kind(self, asked: XKind) -> tuple[XKind, str]:
        """Return the available x axis, and why it differs."""
        if asked in ("tokens", "samples") and not any(run.metrics.ranks(asked) for run in self._runs):
            return "step", f"This run logs no {asked}: x is the step."
        if not by_time(asked) and not any(run.metrics.names() for run in self._runs):
            return "relative", "No rank has logged a step yet: x is the time."
        return asked, ""

    def _extent(
        self, kind: XKind, mappings: Sequence[Mapping], request: Request
    ) -> tuple[float, float] | None:
        ends: list[tuple[float, float]] = []
        for run, mapping in zip(self._runs, mappings, strict=True):
            native = _native_extent(run, mapping, kind)
            if native is not None:
                low, high = (mapping.x_of(kind, _array(end))[0] for end in native)
                ends.append((float(low), float(high)))
        if not ends:
            return None
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        if request.log_x and kind != "wall":
            low = max(low, _LOG_LEAST.get(kind, 1.0))
            high = max(high, 2 * low)
        if request.ended and high > low:
            return low, high
        return low, stepped_end(low, max(high, low + _FEWEST_STEPS) if kind == "step" else high)

    def _plots(
        self,
        request: Request,
        kind: XKind,
        mappings: Sequence[Mapping],
        metrics: Sequence[Metric],
        shown: tuple[float, float],
    ) -> dict[str, PlotData]:
        known = {metric.key: metric for metric in metrics}
        wanted = [(known[key], columns) for key, columns in request.columns if key in known]
        parts: dict[str, list[RunPart]] = {metric.key: [] for metric, _ in wanted}
        for number, (run, mapping) in enumerate(zip(self._runs, mappings, strict=True)):
            label = self._names[number] if len(self._runs) > 1 else ""
            own = (
                wanted if len(self._runs) == 1 else [(run.own(metric), columns) for metric, columns in wanted]
            )
            for metric, span, windows in _read(run, mapping, own, request, kind, shown):
                part = RunPart(run, mapping, kind, metric, span, windows, request.smoothing, label, number)
                parts[metric.key].append(part)
        return {key: merged(found) for key, found in parts.items()}


def _read(
    run: RunReader,
    mapping: Mapping,
    wanted: Sequence[tuple[Metric, int]],
    request: Request,
    kind: XKind,
    shown: tuple[float, float],
) -> Iterator[tuple[Metric, Span, dict[Owner, dict[str, Window]]]]:
    """Read the columns of every visible plot; metrics of one owner with equal columns are read together."""
    spans: dict[Span, list[Metric]] = {}
    for metric, columns in wanted:
        span = _span(run, mapping, metric, columns, request, kind, shown)
        if span is not None:
            spans.setdefault(span, []).append(metric)
    for span, metrics in spans.items():
        names: dict[Owner, list[str]] = {}
        for metric in metrics:
            for owner in run.owners(metric, request.node):
                names.setdefault(owner, []).extend(metric.names)
        found = {owner: run.windows(asked, owner, span) for owner, asked in names.items()}
        for metric in metrics:
            yield metric, span, {owner: found[owner] for owner in run.owners(metric, request.node)}


def _span(
    run: RunReader,
    mapping: Mapping,
    metric: Metric,
    columns: int,
    request: Request,
    kind: XKind,
    shown: tuple[float, float],
) -> Span | None:
    """Return the range of steps or times to read; None if the run has nothing there."""
    axis = "time" if metric.whose == "node" else is_native(kind)
    log = request.log_x and kind != "wall"
    if by_time(kind):
        low, high = (mapping.native_of(kind, x) for x in shown)
    elif request.zoom is None:
        extent = _native_extent(run, mapping, "relative" if axis == "time" else "step")
        if extent is None:
            return None
        low, high = extent[0], stepped_end(*extent)
        high = max(high, low + _FEWEST_STEPS) if axis == "step" else high
        low = max(low, 1.0) if log and axis == "step" else low
    else:
        low, high = (mapping.native_of(kind, x) for x in shown)
        if axis == "time":
            low, high = mapping.time_of_step(low), mapping.time_of_step(high)
    if log and axis == "time":
        return Span(axis, low, max(high, low), columns * _LOG_TIME_FACTOR)
    return Span(axis, low, max(high, low), columns, log and low > 0)


def _native_extent(run: RunReader, mapping: Mapping, kind: XKind) -> tuple[float, float] | None:
    """Return the run's first and last step, or unix time."""
    if by_time(kind):
        last = run.last_time(mapping)
        return None if last is None or not len(mapping.times) else (mapping.start, max(last, mapping.start))
    last = run.last_step(mapping)
    if last is None or not len(mapping.kept_steps):
        return None
    first = float(mapping.kept_steps[0])
    return min(first, 0.0) if first <= max(1.0, 0.05 * last) else first, last


def _array(value: float) -> Array:
    return np.array([value])


def _problems(run: RunReader) -> tuple[str, ...]:
    """Return the problems with its files; for a removed directory one sentence, not a path per file."""
    if not run.layout.root.exists():
        return ("The run's directory was removed",)
    return tuple(run.metrics.problems)


# Curves, bands and gaps from the columns of a run.

_AVERAGE_FINER = 2
"""Factor by which the average's columns are finer than the plot's: it cannot fall back to single rows."""


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
            newest = self.run.metrics.latest(name, owner)
            latest = None if newest is None else newest.value
        elif np.isfinite(y).any():
            latest = float(y[np.isfinite(y)][-1])
        dashed = bool(self.label) and self.metric.names.index(name) > 0
        breaks = self._breaks(name, owner)
        if not self.smoothing or not len(x) or self.metric.unit == "count":
            return Curve(label, colour, x, y, None, rows is not None, latest, dashed, breaks, short)
        finer = Span(
            self.span.axis,
            self.span.low,
            self.span.high,
            _AVERAGE_FINER * self.span.columns,
            self.span.log,
        )
        average = self._columns(self.run.smoothed(name, owner, finer, self.smoothing))
        return Curve(label, colour, *average, (x, y), rows is not None, latest, dashed, breaks, short)

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


def merged(parts: Sequence[RunPart]) -> PlotData:
    """Merge the contributions of all runs into one plot."""
    curves: list[Curve] = []
    bands: list[Band] = []
    odd: list[Array] = []
    count = 0
    for part in parts:
        drawn, bundled = part.drawn()
        curves += drawn
        bands += bundled
        places, found = part.odd()
        odd.append(places)
        count += found
    values = [curve.y for curve in curves] + [curve.raw[1] for curve in curves if curve.raw is not None]
    values += [end for found_band in bands for end in (found_band.low, found_band.high)]
    joined = np.concatenate(values) if values else np.empty(0)
    finite = joined[np.isfinite(joined)]
    positive = finite[finite > 0]
    levels = parts[0].run.levels(parts[0].metric) if len(parts) == 1 else ()
    return PlotData(
        tuple(curves),
        tuple(bands),
        levels,
        float(finite.min()) if len(finite) else None,
        float(finite.max()) if len(finite) else None,
        float(positive.min()) if len(positive) else None,
        np.concatenate(odd) if odd else np.empty(0),
        count,
    )


def _finite(values: NDArray[np.float64]) -> Array:
    return np.where(np.isfinite(values), values, np.nan)
