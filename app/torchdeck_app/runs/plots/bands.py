"""Many series as one band."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from torchdeck.metrics import Window
from torchdeck_app.runs.plots.exchange import Array, Band

MOST_CURVES = 8
"""More series than this become a band."""


def band(label: str, colour: int, x: Array, members: Sequence[str], windows: Sequence[Window]) -> Band:
    """Least, median and greatest of the members in each column.

    The median is that of the middles, (least + greatest) / 2, of each member's rows in the column: of the
    values themselves where each has one row there. Columns that no member has are left out.

    Args:
        label: what the legend calls it.
        colour: place in the palette's series.
        x: of the columns, shape (columns,).
        members: names, one for each window.
        windows: of the same columns.
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


def median(values: Array) -> Array:
    """Median down the columns, NaN left out; shape (n, columns) → (columns,). Each column has a number."""
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
