"""Messages between the grid and the reader thread. All of them are immutable."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from torchdeck.runs.plots.catalogue import Metric
from torchdeck.runs.plots.x_axis import XKind

Array = NDArray[np.float64]
BASELINE = -2
"""Colour of the baseline's curves: none of the series'."""


@dataclass(frozen=True)
class Request:
    """Request for the data to show."""

    columns: tuple[tuple[str, int], ...]
    """(key of a visible plot, its width in pixel columns)."""
    kind: XKind = "step"
    log_x: bool = False
    zoom: tuple[float, float] | None = None
    """Range of x; None for everything."""
    smoothing: float = 0.0
    by_window: bool = False
    """Whether the average is that of the last 1 / (1 - smoothing) rows, instead of an exponential one."""
    until: float | None = None
    """Unix seconds after which nothing is shown."""
    ended: bool = False
    """Whether the runs are over, so that the axis ends with the data."""
    node: str = ""
    """Node whose ranks and system metrics are shown; empty: all."""
    formulas: tuple[str, ...] = ()
    """Formulas that have a plot each."""


@dataclass(frozen=True)
class Curve:
    """Line of a plot. x ascends, or nearly; NaN in y is a gap."""

    label: str
    colour: int
    """Index into the palette's series."""
    x: Array
    y: Array
    """Same shape as x; a pixel column with more than one row has two values: minimum and maximum."""
    raw: tuple[Array, Array] | None = None
    """If smoothed: x and y as logged, drawn pale."""
    exact: bool = False
    """Whether its points are all rows themselves."""
    latest: float | None = None
    """Newest value."""
    dashed: bool = False
    breaks: tuple[float, ...] = ()
    """x at which the line restarts: the start of another attempt on a time axis."""
    short: str = ""
    """Short label among the series of its run, if the colour identifies the run."""


@dataclass(frozen=True)
class Band:
    """Band of too many series to tell apart: three lines of them in each column.

    Those of ranks are minimum, median and maximum; those of runs (`spread`) are the mean, and the standard
    deviation below and above it.
    """

    label: str
    colour: int
    x: Array
    low: Array
    median: Array
    high: Array
    members: tuple[str, ...]
    """Names of the single series."""
    values: NDArray[np.float32]
    """Middle of each member in each column, shape (members, columns)."""
    breaks: tuple[float, ...] = ()
    """Same as for a curve."""
    spread: bool = False
    """Whether the lines are mean and standard deviation."""


@dataclass(frozen=True)
class Level:
    """Horizontal line: a prediction or a capacity."""

    value: float
    label: str


@dataclass(frozen=True)
class PlotData:
    """Content of one plot."""

    curves: tuple[Curve, ...] = ()
    bands: tuple[Band, ...] = ()
    levels: tuple[Level, ...] = ()
    low: float | None = None
    """Smallest finite value in the range; None if there is none."""
    high: float | None = None
    least_positive: float | None = None
    """Lower end for a logarithmic axis."""
    odd: Array = field(default_factory=lambda: np.empty(0))
    """x of columns that contain NaN or infinite values."""
    odd_count: int = 0
    """Rows with such values in the range."""


@dataclass(frozen=True)
class Moments:
    """Pairs of x and unix time, both ascending; for the cursor."""

    x: Array = field(default_factory=lambda: np.empty(0))
    times: Array = field(default_factory=lambda: np.empty(0))

    def time_at(self, x: float) -> float | None:
        """Return unix seconds at x; None if unknown."""
        return float(np.interp(x, self.x, self.times)) if len(self.x) else None

    def x_at(self, time: float) -> float | None:
        """Return x at unix `time`; None if unknown."""
        return float(np.interp(time, self.times, self.x)) if len(self.x) else None


@dataclass(frozen=True)
class Answer:
    """Response to a request."""

    request: Request
    kind: XKind
    """Quantity on the x axis: as requested, or the available alternative."""
    note: str
    """Why it is an alternative; empty if it is as requested."""
    metrics: tuple[Metric, ...]
    plots: dict[str, PlotData]
    extent: tuple[float, float] | None
    """Range of x to show when not zoomed; None if there are no rows."""
    moments: Moments
    problems: tuple[str, ...] = ()
    rows: int = 0
    """Rows added since the previous answer."""
    nodes: tuple[str, ...] = ()
    """Names of the nodes if the run has several."""
