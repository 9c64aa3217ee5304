"""What the board asks of the thread that reads, and what it gets. Nothing here is changed once it is made."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from torchdeck_app.runs.plots.catalogue import Metric
from torchdeck_app.runs.plots.x_axis import XKind

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Request:
    """What is to be seen."""

    columns: tuple[tuple[str, int], ...]
    """(key of a plot in sight, columns of pixels it has)."""
    kind: XKind = "step"
    log_x: bool = False
    zoom: tuple[float, float] | None = None
    """Range of x; None for everything."""
    smoothing: float = 0.0
    until: float | None = None
    """Unix seconds after which nothing is shown."""
    ended: bool = False
    """The runs are over: the axis ends with the data."""
    node: str = ""
    """Whose ranks, and what of the nodes, is shown; empty: all."""


@dataclass(frozen=True)
class Curve:
    """A line. x ascends, or nearly; NaN in y is a gap."""

    label: str
    colour: int
    """Place in the palette's series."""
    x: Array
    y: Array
    """Shape as x; a column of pixels that holds more than one row has two: least and greatest."""
    raw: tuple[Array, Array] | None = None
    """Where it is smoothed: x and y as they were logged, shown pale."""
    exact: bool = False
    """Its points are the rows themselves, all of them."""
    latest: float | None = None
    """The newest value."""
    dashed: bool = False
    breaks: tuple[float, ...] = ()
    """x at which the line begins anew: the start of another attempt on an axis of times."""
    short: str = ""
    """What tells it from the others of its run, where the colour tells the run."""


@dataclass(frozen=True)
class Band:
    """More series than can be told apart: least, median and greatest of them in each column."""

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
    """As for a curve."""


@dataclass(frozen=True)
class Level:
    """A horizontal line: a prediction, a capacity."""

    value: float
    label: str


@dataclass(frozen=True)
class PlotData:
    """What one plot shows."""

    curves: tuple[Curve, ...] = ()
    bands: tuple[Band, ...] = ()
    levels: tuple[Level, ...] = ()
    low: float | None = None
    """Least finite value in the range; None without one."""
    high: float | None = None
    least_positive: float | None = None
    """Where a logarithmic axis may begin."""
    odd: Array = field(default_factory=lambda: np.empty(0))
    """x of columns that hold NaN or infinite values."""
    odd_count: int = 0
    """Rows with such values in the range."""


@dataclass(frozen=True)
class Moments:
    """x and unix time side by side, both ascending; for the cursor."""

    x: Array = field(default_factory=lambda: np.empty(0))
    times: Array = field(default_factory=lambda: np.empty(0))

    def time_at(self, x: float) -> float | None:
        """Unix seconds at x; None where nothing is known."""
        return float(np.interp(x, self.x, self.times)) if len(self.x) else None

    def x_at(self, time: float) -> float | None:
        """x at unix `time`; None where nothing is known."""
        return float(np.interp(time, self.times, self.x)) if len(self.x) else None


@dataclass(frozen=True)
class Answer:
    """What there is."""

    request: Request
    kind: XKind
    """What x is: as asked, or what could be done instead."""
    note: str
    """Why it is another; empty where it is not."""
    metrics: tuple[Metric, ...]
    plots: dict[str, PlotData]
    extent: tuple[float, float] | None
    """Range of x to show when not zoomed; None without any row."""
    moments: Moments
    problems: tuple[str, ...] = ()
    rows: int = 0
    """Rows that came since the answer before."""
    nodes: tuple[str, ...] = ()
    """Of a run on several nodes, their names."""
