"""Reader thread's answers to the grid's requests, from the files of one or several runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from torchdeck.contract.layout import RunLayout
from torchdeck.metrics import Owner, Window
from torchdeck.runs.plots.catalogue import LOSS, Metric, catalogue, formula_metrics
from torchdeck.runs.plots.exchange import BASELINE, Answer, Array, Moments, PlotData, Request
from torchdeck.runs.plots.mapping import Mapping
from torchdeck.runs.plots.ranges import stepped_end
from torchdeck.runs.plots.run_part import RunPart, merged, with_baseline
from torchdeck.runs.plots.run_reader import RunReader, Span, is_native
from torchdeck.runs.plots.x_axis import XKind, by_time

_LOG_TIME_FACTOR = 8
"""Factor by which evenly spaced columns are finer on a logarithmic time axis."""
_FEWEST_STEPS = 10
"""Minimum length of a live run's step axis."""
_LOG_LEAST = {"relative": 1.0}


class PlotReader:
    """Reader of runs; created in one thread, then used by a single other one."""

    def __init__(
        self,
        layouts: Sequence[RunLayout],
        names: Sequence[str] = (),
        baseline: tuple[RunLayout, str] | None = None,
    ) -> None:
        """Create a reader of `layouts` without reading.

        Args:
            layouts: the runs.
            names: names in the legend if there are several.
            baseline: another run that is drawn under them, and its name.
        """
        self._baseline = None if baseline is None else RunReader(baseline[0])
        self._baseline_name = "" if baseline is None else f"baseline {baseline[1]}"
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
        if self._baseline is not None:
            rows += self._baseline.refresh(None)
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
        metrics = (*metrics[:1], *formula_metrics(request.formulas), *metrics[1:])
        if request.node:
            metrics = tuple(metric for metric in metrics if self._has(metric, request.node))
        kind, note = self._kind(request.kind)
        mappings = [run.mapping(kind) for run in self._runs]
        extent = self._extent(kind, mappings, request)
        plots: dict[str, PlotData] = {}
        if extent is not None:
            shown = request.zoom or extent
            plots = self._plots(request, kind, mappings, metrics, shown)
        for run in (*self._runs, *([self._baseline] if self._baseline is not None else ())):
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
                part = RunPart(
                    run,
                    mapping,
                    kind,
                    metric,
                    span,
                    windows,
                    request.smoothing,
                    label,
                    number,
                    request.by_window,
                )
                parts[metric.key].append(part)
        log = request.log_x and kind != "wall"
        plots = {key: merged(found, log=log) for key, found in parts.items()}
        return self._over_baseline(plots, wanted, request, kind, shown)

    def _over_baseline(
        self,
        plots: dict[str, PlotData],
        wanted: Sequence[tuple[Metric, int]],
        request: Request,
        kind: XKind,
        shown: tuple[float, float],
    ) -> dict[str, PlotData]:
        """Return the plots with the curves of the baseline, for the metrics that it has."""
        run = self._baseline
        if run is None:
            return plots
        mapping = run.mapping(kind)
        own = [(run.own(metric), columns) for metric, columns in wanted if metric.whose == "rank"]
        request = replace(request, node="", until=None)
        for metric, span, windows in _read(run, mapping, own, request, kind, shown):
            part = RunPart(
                run,
                mapping,
                kind,
                metric,
                span,
                windows,
                request.smoothing,
                self._baseline_name,
                BASELINE,
                request.by_window,
            )
            plots[metric.key] = with_baseline(plots[metric.key], part.medians())
        return plots


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
