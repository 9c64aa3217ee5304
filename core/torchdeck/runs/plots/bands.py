"""Band that combines many series."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from torchdeck.metrics import Window
from torchdeck.runs.plots.exchange import Array, Band, Curve

MOST_CURVES = 8
"""Number of series above which a band is drawn."""


def band(label: str, colour: int, x: Array, members: Sequence[str], windows: Sequence[Window]) -> Band:
    """Return minimum, median and maximum of the members in each column.

    The median is that of the mid-ranges, (minimum + maximum) / 2, of each member's rows in the column. These
    are the values themselves if each member has one row there. Columns without any row are left out; those
    in which no row has a number are gaps.

    Args:
        label: name in the legend.
        colour: index into the palette's series.
        x: x of the columns, shape (columns,).
        members: names, one per window.
        windows: windows of the same columns.
    """
    low = _finite(np.stack([window.low for window in windows]))
    high = _finite(np.stack([window.high for window in windows]))
    middles = (low + high) / 2
    filled = np.flatnonzero(np.stack([window.counts > 0 for window in windows]).any(axis=0))
    return Band(
        label,
        colour,
        x[filled],
        np.fmin.reduce(low[:, filled], axis=0),
        median(middles[:, filled]),
        np.fmax.reduce(high[:, filled], axis=0),
        tuple(members),
        middles[:, filled].astype(np.float32),
    )


def spread(label: str, colour: int, curves: Sequence[Curve], columns: int, *, log: bool = False) -> Band:
    """Return the mean of some curves, and their sample standard deviation below and above it.

    Curves are interpolated linearly between their mid-ranges at each x. They count from their first to their
    last point except in gaps. The deviation of a single curve is 0.

    Args:
        label: name in the legend.
        colour: index into the palette's series.
        curves: curves with nearly ascending x; at least one of them has a point.
        columns: number of columns.
        log: whether columns are equally wide on a logarithmic axis.
    """
    known = [curve for curve in curves if np.isfinite(curve.y).any()]
    lines = [_middles(curve) for curve in known]
    filled = np.concatenate([x[np.isfinite(y)] for x, y in lines])
    positive = filled[filled > 0]
    if log and len(positive):
        x = np.geomspace(positive.min(), positive.max(), columns)
    else:
        x = np.linspace(filled.min(), filled.max(), columns)
    values = np.stack([np.interp(x, *line, left=np.nan, right=np.nan) for line in lines])
    values = values[:, (there := np.isfinite(values).any(axis=0))]
    counts = np.count_nonzero(np.isfinite(values), axis=0)
    mean = np.nanmean(values, axis=0)
    deviation = np.sqrt(np.nansum((values - mean) ** 2, axis=0) / np.maximum(counts - 1, 1))
    members = tuple(curve.label for curve in known)
    ends = mean - deviation, mean, mean + deviation
    return Band(label, colour, x[there], *ends, members, values.astype(np.float32), spread=True)


def _middles(curve: Curve) -> tuple[Array, Array]:
    """Return each x of a curve once, ascending, and the mid-range of its values there; NaN in gaps."""
    order = np.argsort(curve.x, kind="stable")
    x, first = np.unique(curve.x[order], return_index=True)
    y = _finite(curve.y[order])
    return x, (np.fmin.reduceat(y, first) + np.fmax.reduceat(y, first)) / 2


def median(values: Array) -> Array:
    """Return the median per column, ignoring NaN; shape (n, columns) → (columns,); NaN without a number."""
    ordered = np.sort(values, axis=0)  # NaN last
    counts = np.count_nonzero(~np.isnan(ordered), axis=0)
    columns = np.arange(values.shape[1])
    low = ordered[np.maximum(counts - 1, 0) // 2, columns]
    upper = ordered[np.minimum(counts // 2, len(values) - 1), columns]
    result: Array = (low + upper) / 2
    return result


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    values[~np.isfinite(values)] = np.nan
    return values
