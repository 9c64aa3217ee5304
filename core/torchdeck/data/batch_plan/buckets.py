"""Where to cut lengths into buckets so that padding is least."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from torchdeck.data.batch_plan.columns import Ints
from torchdeck.data.batch_plan.settings import PlanSettings

_CANDIDATES = 512
"""Bounds that are tried; the work grows with the square."""
_WIDE = 1 << 24
"""Lengths above this are counted by sorting instead of in a table."""
_FULL_MICROBATCHES = 4
"""That a bucket should have, since the last one of each is rarely full."""


def choose_bounds(lengths: npt.NDArray[np.int32], settings: PlanSettings) -> tuple[int, ...]:
    """Upper bounds of the buckets, inclusive and ascending; the last is the longest of `lengths`.

    Bounds that were given are used as they are, without those that no sample needs. Otherwise those of least
    padding among `_CANDIDATES`, by dynamic programming over the histogram (the one-dimensional k-segmentation
    of Bellman, "On the approximation of curves by line segments using dynamic programming", CACM 4, 1961).

    Args:
        lengths: of all samples, at least 1 each, shape (n,).
        settings: `buckets` and `token_budget` are looked at.
    """
    longest = int(lengths.max())
    if isinstance(settings.buckets, tuple):
        given: Sequence[int] = settings.buckets
        return (*(bound for bound in given if bound < longest), longest)
    values, counts = _histogram(lengths, longest)
    enough = int(values @ counts) // (_FULL_MICROBATCHES * settings.token_budget)
    return _least_padding(values, counts, max(1, min(settings.buckets, enough)))


def bucket_ids(lengths: npt.NDArray[np.int32], bounds: Sequence[int]) -> npt.NDArray[np.uint16]:
    """The bucket of each length, shape (n,)."""
    result = np.empty(len(lengths), dtype=np.uint16)
    edges = np.asarray(bounds, dtype=np.int32)
    for first in range(0, len(lengths), 1 << 20):
        part = slice(first, first + (1 << 20))
        result[part] = np.searchsorted(edges, lengths[part], side="left")
    return result


def _histogram(lengths: npt.NDArray[np.int32], longest: int) -> tuple[Ints, Ints]:
    """The lengths that occur, ascending, and how often each does."""
    if longest > _WIDE:
        values, counts = np.unique(lengths, return_counts=True)
        return values.astype(np.int64), counts.astype(np.int64)
    table = np.bincount(lengths)
    present = np.flatnonzero(table)
    return present.astype(np.int64), table[present].astype(np.int64)


def _least_padding(values: Ints, counts: Ints, buckets: int) -> tuple[int, ...]:
    """At most `buckets` of `values`, the last included, that lengths are padded up to the least."""
    tokens = np.cumsum(values * counts)
    if len(values) > _CANDIDATES:
        # equal shares of the tokens: long samples are few, but what they are padded with is long too
        shares = np.arange(1, _CANDIDATES + 1, dtype=np.int64) * (int(tokens[-1]) // _CANDIDATES)
        at = np.unique(np.minimum(np.searchsorted(tokens, shares), len(values) - 1))
        at = np.unique(np.append(at, len(values) - 1))
    else:
        at = np.arange(len(values))
    bounds = values[at]
    below = np.concatenate(([0], np.cumsum(counts)[at]))
    real = np.concatenate(([0], tokens[at]))
    # padding[i, j]: of a bucket above bound i − 1 (none for 0), up to bound j
    padding = bounds[None, :] * (below[None, 1:] - below[:-1, None]) - (real[None, 1:] - real[:-1, None])
    impossible = np.iinfo(np.int64).max // 4
    padding[np.tril_indices(len(bounds), -1)] = impossible
    best, cuts = padding[0], []
    for _ in range(min(buckets, len(bounds)) - 1):
        cost = np.concatenate(([impossible], best[:-1]))[:, None] + padding
        cut = np.argmin(cost, axis=0)
        cuts.append(cut)
        best = cost[cut, np.arange(len(bounds))]
    chosen, at_bound = [len(bounds) - 1], len(bounds) - 1
    for cut in reversed(cuts):
        at_bound = int(cut[at_bound]) - 1
        chosen.append(at_bound)
    return tuple(int(bounds[index]) for index in sorted(chosen))
