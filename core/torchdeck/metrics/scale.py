"""Mapping of x to the columns of a plot."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ColumnScale:
    """A range of x in columns that are equally wide on screen: in x itself, or in its logarithm.

    Args:
        x0: minimum x.
        x1: maximum x.
        columns: number of columns.
        log: by logarithm; requires `x0` above 0.

    Raises:
        ValueError: the range is invalid, or there is no column.
    """

    def __init__(self, x0: float, x1: float, columns: int, *, log: bool = False) -> None:
        if not (math.isfinite(x0) and math.isfinite(x1) and x0 <= x1):
            raise ValueError(f"a window goes from x0 to a greater x1, both finite, not from {x0} to {x1}")
        if columns < 1:
            raise ValueError(f"a window has at least one column, not {columns}")
        if log and x0 <= 0:
            raise ValueError(f"a window on a logarithmic axis begins above 0, not at {x0}")
        self.x0, self.x1, self.columns, self.log = float(x0), float(x1), columns, log
        self._start = math.log(x0) if log else self.x0
        end = math.log(x1) if log else self.x1
        self._per_unit = columns / (end - self._start) if end > self._start else 0.0

    @property
    def edges(self) -> NDArray[np.float64]:
        """Shape (columns + 1,)."""
        if self.log:
            return np.geomspace(self.x0, self.x1, self.columns + 1)
        return np.linspace(self.x0, self.x1, self.columns + 1)

    def holds(self, x: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which of `x` are in the range."""
        inside: NDArray[np.bool_] = (x >= self.x0) & (x <= self.x1)
        return inside

    def columns_of(self, x: NDArray[Any]) -> NDArray[np.intp]:
        """Return the column of each of `x`, all in the range."""
        position = np.log(x) if self.log else x
        columns = ((position - self._start) * self._per_unit).astype(np.intp)
        # the logarithm of x0 itself may be rounded down
        return np.clip(columns, 0, self.columns - 1, out=columns)
