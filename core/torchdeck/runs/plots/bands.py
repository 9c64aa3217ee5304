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
    are the values themselves if each member has one row there. Columns without any member are left out.

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
    filled = np.flatnonzero(np.isfinite(middles).any(axis=0))
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


def spread(label: str, colour: int, curves: Sequence[Curve], columns: int) -> Band:
    """Return the mean of some curves, and their standard deviation below and above it, over their range of x.

    Curves are interpolated linearly, and count where they are; the deviation is that of the population.

    Args:
        label: name in the legend.
        colour: index into the palette's series.
        curves: curves with ascending x; at least one of them has a point.
        columns: number of columns of equal width.
    """
    known = [curve for curve in curves if np.isfinite(curve.y).any()]
    ends = [curve.x[np.isfinite(curve.y)][[0, -1]] for curve in known]
    x = np.linspace(min(low for low, _ in ends), max(high for _, high in ends), columns)
    values = np.stack(
        [
            np.interp(x, curve.x[finite], curve.y[finite], left=np.nan, right=np.nan)
            for curve in known
            for finite in (np.isfinite(curve.y),)
        ]
    )
    values = values[:, (there := np.isfinite(values).any(axis=0))]
    mean, deviation = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    members = tuple(curve.label for curve in known)
    lines = mean - deviation, mean, mean + deviation
    return Band(label, colour, x[there], *lines, members, values.astype(np.float32), spread=True)


def median(values: Array) -> Array:
    """Return the median per column, ignoring NaN; shape (n, columns) → (columns,). Each column has a
    number.
    """
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
