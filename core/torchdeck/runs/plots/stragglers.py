"""Detection of stragglers: which rank lags behind the others, since when, and by how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from torchdeck.runs.folders.rank_nodes import rank_words
from torchdeck.runs.plots.bands import median
from torchdeck.runs.plots.exchange import Array

SLOW = 1.25
"""Multiple of the ranks' median above which a rank lags behind."""
_FEWEST = 3
"""Minimum consecutive columns, so that one slow moment is not a straggler."""
_GAP = 2
"""Maximum columns within a stretch in which a straggler may be as fast as the others."""


@dataclass(frozen=True)
class Straggler:
    """Stretch over which a rank lagged behind."""

    row: int
    first: int
    """First column of the stretch."""
    last: int
    ratio: float
    """Median over the stretch of its value divided by the median of the ranks."""
    goes_on: bool
    """Whether the stretch reaches the newest column."""


def ratios(values: Array) -> Array:
    """Return each value divided by the median of its column; shape (ranks, columns). NaN if there is none."""
    known = np.isfinite(values).any(axis=0)
    middles = np.full(values.shape[1], np.nan)
    if known.any():
        middles[known] = median(values[:, known])
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Array = values / np.where(middles > 0, middles, np.nan)
    return result


def stragglers(values: Array, most: int = 3) -> list[Straggler]:
    """Return the stragglers, the worst (time lost, as excess × columns) first; at most one stretch per rank.

    Args:
        values: a quantity for which smaller is better, such as step time, shape (ranks, columns); NaN if
            unknown.
        most: maximum number of stragglers.
    """
    if len(values) < 2:
        return []
    relative = ratios(values)
    filled = np.flatnonzero(np.isfinite(relative).any(axis=0))
    if not len(filled):
        return []
    relative = relative[:, filled]
    slow = relative > SLOW
    found: list[tuple[float, Straggler]] = []
    for row in np.flatnonzero(np.count_nonzero(slow, axis=1) >= min(_FEWEST, len(filled))).tolist():
        best = max(
            ((_excess(relative[row], part), part) for part in _stretches(slow[row])),
            default=None,
            key=lambda item: item[0],
        )
        if best is not None and np.count_nonzero(slow[row, best[1]]) >= min(_FEWEST, len(filled)):
            part = best[1]
            ratio = float(np.nanmedian(relative[row, part]))
            last = int(filled[part.stop - 1])
            goes_on = part.stop - 1 >= len(filled) - 1 - _GAP
            found.append((best[0], Straggler(row, int(filled[part.start]), last, ratio, goes_on)))
    found.sort(key=lambda item: -item[0])
    return [straggler for _, straggler in found[:most]]


def sentence(
    found: list[Straggler], ranks: list[int], x: Array, what: str, nodes: Mapping[int, str] | None = None
) -> str:
    """Return a sentence such as `rank 3 is 1.8 × the median since step 420`.

    Args:
        found: stragglers, the worst first.
        ranks: rank number of each row.
        x: text of each column's x.
        what: kind of x, such as `step`, or empty if `x` needs none.
        nodes: node of each rank if there are several.
    """
    if not found:
        return "No rank lags behind the others." if len(ranks) > 1 else "Only one rank."
    worst = found[0]
    times = f"{worst.ratio:.1f} × the median"
    name = "R" + rank_words(ranks[worst.row], nodes or {})[1:]
    if worst.goes_on:
        text = f"{name} is {times} since {what} {x[worst.first]:,.0f}"
    else:
        text = f"{name} was {times} from {what} {x[worst.first]:,.0f} to {x[worst.last]:,.0f}"
    others = [str(ranks[straggler.row]) for straggler in found[1:]]
    if others:
        text += f"; slow too: {'rank' if len(others) == 1 else 'ranks'} {', '.join(others)}"
    return text + "."


def _stretches(slow: NDArray[np.bool_]) -> list[slice]:
    """Return slow columns as slices, bridging short gaps."""
    at = np.flatnonzero(slow)
    if not len(at):
        return []
    breaks = np.flatnonzero(np.diff(at) > _GAP + 1)
    firsts = at[np.concatenate(([0], breaks + 1))].tolist()
    lasts = at[np.concatenate((breaks, [len(at) - 1]))].tolist()
    return [slice(first, last + 1) for first, last in zip(firsts, lasts, strict=True)]


def _excess(relative: Array, part: slice) -> float:
    return float(np.nansum(relative[part] - 1.0))
