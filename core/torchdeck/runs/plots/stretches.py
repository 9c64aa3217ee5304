"""Parts of a line: between its gaps, and in a range of x."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from torchdeck.runs.plots.exchange import Array


def stretches(y: Array, starts: Sequence[int] = ()) -> list[slice]:
    """Return slices of `y` between its NaN values, none of which crosses one of `starts`."""
    if len(starts):
        ends = sorted({0, *starts, len(y)})
        return [
            slice(first + part.start, first + part.stop)
            for first, last in pairwise(ends)
            for part in stretches(y[first:last])
        ]
    finite = np.isfinite(y)
    if finite.all():
        return [slice(0, len(y))] if len(y) else []
    edges = np.flatnonzero(np.diff(np.concatenate(([False], finite, [False])).astype(np.int8)))
    return [slice(int(first), int(last)) for first, last in zip(edges[0::2], edges[1::2], strict=True)]


def within(x: Array, low: float, high: float) -> slice:
    """Return the slice of ascending `x` from `low` to `high`, plus one neighbour on either side."""
    if len(x) < 2 or (x[1:] < x[:-1]).any():
        return slice(0, len(x))
    first = int(np.searchsorted(x, low, "left")) - 1
    return slice(max(first, 0), int(np.searchsorted(x, high, "right")) + 1)


def thinned(x: Array, y: Array, columns: int) -> tuple[Array, Array]:
    """Return minimum and maximum of each column of equal width; the points themselves if they are few.

    Args:
        x: ascending, shape (n,).
        y: shape (n,); NaN counts only if a column has nothing else.
        columns: number of columns.
    """
    if len(x) <= 2 * columns:
        return x, y
    starts = np.unique(np.searchsorted(x, np.linspace(x[0], x[-1], columns + 1)[:-1]))
    ends = np.append(starts[1:], len(x)) - 1
    found = np.empty(2 * len(starts))
    found[0::2], found[1::2] = np.fmin.reduceat(y, starts), np.fmax.reduceat(y, starts)
    return np.repeat((x[starts] + x[ends]) / 2, 2), found
