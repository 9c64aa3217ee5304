"""Table of ranks and microbatches, aggregated to a visible number of cells. No Qt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_LEAST_SPAN = 0.1
"""Minimum span as a share of the maximum: values closer together look alike."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of neighbouring ranks and microbatches."""

    most: Values
    """Largest value in each cell, shape (rows, columns)."""
    total: Values
    """Sum of each cell, same shape."""
    rows: Ints
    """First rank of each row, and the end; shape (rows + 1,)."""
    columns: Ints
    """Same for microbatches, shape (columns + 1,)."""

    @property
    def shape(self) -> tuple[int, int]:
        """Return rows and columns."""
        return len(self.rows) - 1, len(self.columns) - 1

    def mean(self, row: int, column: int) -> float:
        """Return the mean of a cell."""
        held = int(np.diff(self.rows)[row] * np.diff(self.columns)[column])
        return float(self.total[row, column]) / held

    def alike(self) -> bool:
        """Return whether all non-empty cells are equal."""
        there = self.most[self.most > 0]
        return bool(there.size) and bool(there.min() == there.max())

    def span(self) -> tuple[float, float]:
        """Return the ends of the colour scale; empty cells are ignored, and a single value has no scale."""
        there = self.most[self.most > 0]
        if not there.size:
            return 0.0, 1.0
        high = float(there.max())
        if self.alike():
            return high, high
        return min(float(there.min()), high * (1 - _LEAST_SPAN)), high


def cut(length: int, parts: int) -> Ints:
    """Return the starts of at most `parts` parts of `length`, and the end; each 1, 2, 4 … long, the last
    maybe less.

    With powers of two the ranks of a node mostly stay together.
    """
    each = 1
    while -(-length // each) > max(1, parts):
        each *= 2
    return np.append(np.arange(0, length, each, dtype=np.int64), length)


def summed_up(values: Values, rows: int, columns: int) -> Cells:
    """Aggregate `values`, shape (ranks, microbatches), to at most `rows` × `columns` cells.

    Raises:
        ValueError: there are no values.
    """
    if not values.size:
        raise ValueError("a table without values has no cells")
    row_edges, column_edges = cut(values.shape[0], rows), cut(values.shape[1], columns)
    most = np.maximum.reduceat(values, row_edges[:-1], axis=0)
    total = np.add.reduceat(values, row_edges[:-1], axis=0)
    return Cells(
        np.maximum.reduceat(most, column_edges[:-1], axis=1),
        np.add.reduceat(total, column_edges[:-1], axis=1),
        row_edges,
        column_edges,
    )


def round_stride(least: float) -> int:
    """Return the first of 1, 2, 5, 10, 20, 50 … that is not below `least`."""
    decade = 1
    while True:
        for part in (1, 2, 5):
            if part * decade >= least:
                return part * decade
        decade *= 10


def ranks_named(first: int, last: int) -> str:
    """Return `rank 3` or `ranks 0–7`."""
    return f"rank {first:,}" if first == last else f"ranks {first:,}–{last:,}"
