"""Metrics of one run for the plot grid; for the reader thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as TypedMapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.metrics import Grid, Latest, Owner, RunMetrics, Series, Window, rows_between, sampled
from torchdeck.metrics.derived import DerivedMetrics
from torchdeck.metrics.formula import PREFIX
from torchdeck.metrics.smoothing import averages, window_means
from torchdeck.metrics.window import window_of
from torchdeck.quantities import size
from torchdeck.runs.folders.rank_nodes import RankNodes
from torchdeck.runs.plots.catalogue import FORMULA, OWN, Metric
from torchdeck.runs.plots.exchange import Level
from torchdeck.runs.plots.mapping import Mapping
from torchdeck.runs.plots.x_axis import XKind, by_time
from torchdeck.runs.training_progress import roles_of_run
from torchdeck.trainers.metric_roles import LOSS, ROLES, STEP_TIME, TOKENS, Roles

_KNOTS = 4096
_MOST_ROWS = 1 << 20
"""Rows of which a mean over a window is computed: 20 ms."""
_REFERENCE = (LOSS, STEP_TIME, TOKENS)
"""Roles of metrics with one row per step, by preference."""


@dataclass(frozen=True)
class Span:
    """Range in terms of the files' axes."""

    axis: str
    """Axis: `step` or `time`."""
    low: float
    high: float
    columns: int
    log: bool = False


class RunReader:
    """Reader that follows one run."""

    def __init__(self, layout: RunLayout) -> None:
        self.layout = layout
        self.metrics = RunMetrics(layout.root)
        self.derived = DerivedMetrics(self.metrics, lambda: self.roles)
        self._mappings: dict[tuple[XKind, float | None], Mapping] = {}
        self._grids: dict[tuple[Span, bool, float | None], Grid] = {}
        self._used: set[tuple[Span, bool, float | None]] = set()
        self._levels: dict[str, tuple[Level, ...]] | None = None
        self._nodes = RankNodes(layout)
        self.rank_nodes: TypedMapping[int, str] = {}
        """Node of each rank if there are several nodes."""

    def refresh(self, until: float | None) -> int:
        """Read new rows and return their number.

        Raises:
            NewerFormatError: the run's journal is from a newer Torchdeck.
        """
        new = self.metrics.refresh()
        self.metrics.until = until
        if new:
            self.derived.forget()
            self._mappings.clear()
            self.rank_nodes = self._nodes.now()
        return new

    def mapping(self, kind: XKind) -> Mapping:
        """Return the mapping between its steps, times, tokens and samples."""
        key = (kind, self.metrics.until)
        if key not in self._mappings:
            if len(self._mappings) > 8:
                self._mappings.clear()
            self._mappings[key] = self._mapped(kind)
        return self._mappings[key]

    def _mapped(self, kind: XKind) -> Mapping:
        name = self._reference()
        if name is None:
            return self._mapped_by_node()
        rank = self.metrics.ranks(name)[0]
        series = sampled(self.metrics, name, rank, most=_KNOTS)
        kept = sampled(self.metrics, name, rank, most=_KNOTS, effective=True)
        counted = None
        if kind in ("tokens", "samples") and self.metrics.ranks(kind):
            counted = sampled(self.metrics, kind, self.metrics.ranks(kind)[0], most=_KNOTS, effective=True)
        return Mapping.of(series, kept, counted)

    def _mapped_by_node(self) -> Mapping:
        """Return a mapping that has only times, if no rank has written yet."""
        for name in self.metrics.system_names():
            series = sampled(self.metrics, name, self.metrics.nodes(name)[0], most=_KNOTS)
            return Mapping.of(series, Series.empty())
        return Mapping()

    @cached_property
    def roles(self) -> Roles:
        """Return the roles of the run's metrics: what its run file names, and what is known of programs."""
        return roles_of_run(self.layout)

    def common_names(self) -> set[str]:
        """Return the ranks' metrics by their roles, so that runs of different programs share plots."""
        names = self.metrics.names()
        by_role = {self.roles.choose(role, names): role for role in ROLES}
        return {by_role.get(name, name) for name in names}

    def own(self, metric: Metric) -> Metric:
        """Return a plot of `common_names` with this run's own names."""
        if metric.whose == "node" or metric.key.startswith((OWN, FORMULA)):
            return metric
        names = self.metrics.names()
        own = tuple(
            (self.roles.choose(name, names) if name in ROLES else None) or name for name in metric.names
        )
        return replace(metric, names=own)

    def _reference(self) -> str | None:
        names = self.metrics.names()
        chosen = (self.roles.choose(role, names) for role in _REFERENCE)
        return next((name for name in (*chosen, *names) if name is not None), None)

    def last_step(self, mapping: Mapping) -> float | None:
        """Return the greatest step of any metric; None without rows."""
        if self.metrics.until is not None:
            return float(mapping.kept_steps[-1]) if len(mapping.kept_steps) else None
        steps = [
            latest.step
            for name in self.metrics.names()
            if (latest := self.metrics.latest(name, self.metrics.ranks(name)[0])) is not None
        ]
        return float(max(steps)) if steps else None

    def last_time(self, mapping: Mapping) -> float | None:
        """Return the unix time of the newest row; None without rows."""
        if self.metrics.until is not None:
            return float(mapping.times[-1]) if len(mapping.times) else None
        owners: list[tuple[str, Owner]] = [
            (name, self.metrics.ranks(name)[0]) for name in self.metrics.names()
        ]
        owners += [(name, node) for name in self.metrics.system_names() for node in self.metrics.nodes(name)]
        times = [found.time for name, owner in owners if (found := self.metrics.latest(name, owner))]
        return max(times, default=None)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return its nodes in the order of their ranks; none for a run on one node."""
        return self._nodes.names()

    def owners(self, metric: Metric, node: str = "") -> list[Owner]:
        """Return the owners of the plot's series in the order of their colours; only those of `node` if
        given.

        A metric logged by a single rank, such as the loss, belongs to the whole run, whatever node the rank
        is on.
        """
        found: list[Owner] = []
        for name in metric.names:
            whose = self._owners_of(name, metric)
            found += [owner for owner in whose if owner not in found]
        if node and (metric.whose == "node" or len(found) > 1):
            found = [owner for owner in found if self._is_on(owner, node)]
        return sorted(found, key=lambda owner: (isinstance(owner, str), owner))

    def colours(self, metric: Metric) -> dict[tuple[str, Owner], int]:
        """Return the palette index of each series (metric, owner), also while only some are shown."""
        owners = {name: self._owners_of(name, metric) for name in metric.names}
        whose = self.owners(metric)
        series = [(name, owner) for name in metric.names for owner in whose if owner in owners[name]]
        return {each: at for at, each in enumerate(series)}

    def _owners_of(self, name: str, metric: Metric) -> Sequence[Owner]:
        if name.startswith(PREFIX):
            return self.derived.ranks(name)
        return self.metrics.ranks(name) if metric.whose == "rank" else self.metrics.nodes(name)

    def _is_on(self, owner: Owner, node: str) -> bool:
        return (self.rank_nodes.get(owner) if isinstance(owner, int) else owner) == node

    def windows(self, names: Iterable[str], owner: Owner, span: Span) -> dict[str, Window]:
        """Return columns of several metrics of one owner.

        Raises:
            OSError: a file cannot be read.
        """
        effective = not by_time_axis(span)
        key = (span, effective, self.metrics.until)
        self._used.add(key)
        if key not in self._grids:
            self._grids[key] = Grid(
                self.metrics,
                span.low,
                span.high,
                span.columns,
                axis=span.axis,
                effective=effective,
                log=span.log,
            )
        asked = list(names)
        found = self._grids[key].windows([name for name in asked if not name.startswith(PREFIX)], owner)
        for name in asked:
            if name.startswith(PREFIX):
                found[name] = _reduced(self._derived(name, owner, span), span)
        return found

    def latest(self, name: str, owner: Owner) -> Latest | None:
        """Return the newest row of a metric or a formula; None if there is none."""
        source = self.derived if name.startswith(PREFIX) else self.metrics
        return source.latest(name, owner)

    def _derived(self, name: str, owner: Owner, span: Span) -> Series:
        return self.derived.series(name, owner, effective=not by_time_axis(span))

    def forget_unused(self) -> None:
        """Drop the columns that were not used since the last call."""
        self._grids = {key: grid for key, grid in self._grids.items() if key in self._used}
        self._used = set()

    def rows(self, name: str, owner: Owner, span: Span) -> Series | None:
        """Return the rows themselves if there are few."""
        if name.startswith(PREFIX):
            found = _in_range(self._derived(name, owner, span), span)
            return found if len(found) <= 2 * span.columns else None
        return rows_between(
            self.metrics,
            name,
            owner,
            span.low,
            span.high,
            most=2 * span.columns,
            axis=span.axis,
            effective=not by_time_axis(span),
        )

    def smoothed(self, name: str, owner: Owner, span: Span, weight: float) -> Window:
        """Return columns of the moving average."""
        if name.startswith(PREFIX):
            series = self._derived(name, owner, span)
            return _reduced(replace(series, values=averages(series.values, weight).smoothed), span)
        return self.metrics.window(
            name,
            owner,
            span.low,
            span.high,
            span.columns,
            axis=span.axis,
            effective=not by_time_axis(span),
            log=span.log,
            smoothing=weight,
        )

    def window_means(self, name: str, owner: Owner, span: Span, rows: int) -> Series:
        """Return the mean of the last `rows` rows at each row in the range.

        Runs of more than a million rows are sampled evenly, and the window by the same factor.
        """
        effective = not by_time_axis(span)
        if name.startswith(PREFIX):
            series = self._derived(name, owner, span)
            whole = len(series)
        else:
            series = sampled(self.metrics, name, owner, most=_MOST_ROWS, effective=effective)
            whole = sum(part.rows for part, _ in self.metrics.parts(name, owner, effective=effective))
        stride = max(1, round(whole / max(len(series), 1)))
        means = replace(series, values=window_means(series.values, max(1, rows // stride)))
        native = means.times if by_time_axis(span) else means.steps.astype(float)
        return means.picked((native >= span.low) & (native <= span.high))

    def breaks(self, name: str, owner: Owner, span: Span) -> tuple[float, ...]:
        """Return the unix times of the first rows of later attempts; none if x is a step.

        Raises:
            OSError: a file cannot be read.
        """
        if not by_time_axis(span):
            return ()
        if name.startswith(PREFIX):
            series = self._derived(name, owner, span)
            return tuple(series.times[np.flatnonzero(np.diff(series.attempts)) + 1].tolist())
        return self.metrics.attempt_starts(name, owner)

    def levels(self, metric: Metric) -> tuple[Level, ...]:
        """Return lines over the plot: for memory, the prediction and the capacity."""
        if self._levels is None:
            self._levels = _levels_of(self.layout)
        return self._levels.get(metric.key, ())


def _reduced(series: Series, span: Span) -> Window:
    return window_of(series, span.low, span.high, span.columns, axis=span.axis, log=span.log)


def _in_range(series: Series, span: Span) -> Series:
    """Return the rows in the range, and the next one on either side if x ascends."""
    x = series.times if by_time_axis(span) else series.steps
    if len(x) and (x[1:] >= x[:-1]).all():
        first = max(0, int(np.searchsorted(x, span.low, "left")) - 1)
        return series.picked(np.arange(first, min(len(x), int(np.searchsorted(x, span.high, "right")) + 1)))
    return series.picked((x >= span.low) & (x <= span.high))


def by_time_axis(span: Span) -> bool:
    """Return whether the span is a range of times."""
    return span.axis == "time"


def is_native(kind: XKind) -> str:
    """Return the axis in the files by which x is read."""
    return "time" if by_time(kind) else "step"


def _levels_of(layout: RunLayout) -> dict[str, tuple[Level, ...]]:
    """Return by plot: predicted peaks and device capacities. A plan that cannot be read gives no
    predictions.
    """
    try:
        plan = LaunchPlan.from_json(read_json(layout.plan))
    except Exception:  # noqa: BLE001 - whatever is wrong with the plan is said in the run's header
        return {}
    if plan.prediction is None:
        return {}
    peaks = sorted({memory.peak_bytes for memory in plan.prediction.memory})
    capacities = sorted({memory.capacity_bytes or 0 for memory in plan.prediction.memory} - {0})
    lines = [Level(peak, f"predicted {size(peak)}") for peak in peaks]
    on_cpu = all(rank.device == "cpu" for rank in plan.ranks)
    if on_cpu:
        return {"memory_growth": tuple(lines)}
    lines += [Level(found, f"capacity {size(found)}") for found in capacities]
    return {"memory_peak": tuple(lines)}
