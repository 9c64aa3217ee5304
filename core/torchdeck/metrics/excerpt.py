"""Single rows of a metric: all of a short range, or a few of a long run."""

from __future__ import annotations

import numpy as np

from torchdeck.metrics.blocks import BLOCK_ROWS
from torchdeck.metrics.owned_segment import rows_of, series_of
from torchdeck.metrics.run_metrics import RunMetrics
from torchdeck.metrics.series import Owner, Series


def rows_between(
    metrics: RunMetrics,
    name: str,
    owner: Owner,
    x0: float,
    x1: float,
    *,
    most: int,
    axis: str = "step",
    effective: bool = False,
) -> Series | None:
    """Return every row from x0 to x1, and the next one on either side; None if there may be more than `most`.

    Reads at most a block of rows on each side of the range.

    Raises:
        OSError: a file cannot be read.
    """
    found: list[Series] = []
    for segment, limit in metrics.parts(name, owner, effective=effective):
        segment.index.advance_axes()
        blocks = segment.index.times if axis == "time" else segment.index.steps
        near = blocks.between(x0, x1)
        first = max(0, near.start * BLOCK_ROWS - 1)
        last = segment.rows if near.stop >= blocks.blocks else near.stop * BLOCK_ROWS + 1
        if last - first > most + 3 * BLOCK_ROWS:
            return None
        part = rows_of(segment, name, limit, first, last)
        x = part.times if axis == "time" else part.steps
        if (x[1:] >= x[:-1]).all():
            start = max(0, int(np.searchsorted(x, x0, "left")) - 1)
            found.append(part.picked(np.arange(start, min(int(np.searchsorted(x, x1, "right")) + 1, len(x)))))
        else:
            found.append(part.picked((x >= x0) & (x <= x1)))
    whole = Series.joined(found)
    return whole if len(whole) <= most + 2 * len(found) else None


def sampled(metrics: RunMetrics, name: str, owner: Owner, *, most: int, effective: bool = False) -> Series:
    """Return about `most` rows of the run, evenly spaced by number, including the first and the last of each
    segment.

    For an active run, rows read before are not read again.

    Raises:
        OSError: a file cannot be read.
    """
    parts = metrics.parts(name, owner, effective=effective)
    rows = sum(segment.rows for segment, _ in parts)
    stride = 1
    while rows // stride > most:
        stride *= 2
    found = [series_of(segment, name, limit, segment.sparse.every(stride)) for segment, limit in parts]
    return Series.joined(found)
