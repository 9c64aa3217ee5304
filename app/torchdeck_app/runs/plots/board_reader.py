"""Answers the board's requests from the files of one or several runs; for the thread that reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from torchdeck.contract.layout import RunLayout
from torchdeck.metrics import Owner, Window
from torchdeck_app.runs.plots.catalogue import LOSS, Metric, catalogue
from torchdeck_app.runs.plots.drawing_data import RunPart, merged
from torchdeck_app.runs.plots.exchange import Answer, Array, Moments, PlotData, Request
from torchdeck_app.runs.plots.mapping import Mapping
from torchdeck_app.runs.plots.ranges import stepped_end
from torchdeck_app.runs.plots.run_reader import RunReader, Span, is_native
from torchdeck_app.runs.plots.x_axis import XKind, by_time

_LOG_TIME_FACTOR = 8
"""On a logarithmic axis of times, columns are read so much finer, and evenly."""
_FEWEST_STEPS = 10
"""A live run's axis of steps is at least so long."""
_LOG_LEAST = {"relative": 1.0}


class BoardReader:
    """Reads runs; made in one thread, then used by another one only."""

    def __init__(self, layouts: Sequence[RunLayout], names: Sequence[str] = ()) -> None:
        """A reader of `layouts`; nothing is read yet.

        Args:
            layouts: the runs.
            names: what the legend calls them, where they are several.
        """
        self._runs = [RunReader(layout) for layout in layouts]
        self._last: Answer | None = None
        self._names = list(names) or [layout.root.name for layout in layouts]

    def answer(self, request: Request) -> Answer:
        """What there is now: the answer before, where nothing came and nothing else is asked.

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
            {name for run in self._runs for name in run.metrics.names()},
            {name for run in self._runs for name in run.metrics.system_names()},
            awaits_loss=not request.ended and any(run.metrics.system_names() for run in self._runs),
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

    def _has(self, metric: Metric, node: str) -> bool:
        """There is something of it to be shown of a node, or may be."""
        return metric.key == LOSS or any(run.owners(metric, node) for run in self._runs)

    def _kind(self, asked: XKind) -> tuple[XKind, str]:
        """The x axis there can be."""
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
            for metric, span, windows in _read(run, mapping, wanted, request, kind, shown):
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
    """The columns of every plot in sight; metrics of one owner that have equal columns are read together."""
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
    """The range of steps or times to read; None where the run has nothing there."""
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
    """First and last step, or unix time, of what the run has."""
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
    """What is wrong with its files; of a removed directory that one sentence, not a path for each file."""
    if not run.layout.root.exists():
        return ("The run's directory was removed",)
    return tuple(run.metrics.problems)
