"""Construction of a batch plan from lengths.

Each epoch draws its own order from Philox (Salmon et al., SC 2011) with key (seed, epoch): raw bits sorted
with ties broken by sample id, so that no machine, Python or numpy version changes a byte of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.data.batch_plan.columns import EpochColumns, Ints, narrow, offsets_of
from torchdeck.data.batch_plan.files.length_files import Progress
from torchdeck.data.batch_plan.lengths import UsableLengths, id_type, lengths_fingerprint, usable_lengths
from torchdeck.data.batch_plan.meta import PlanMeta
from torchdeck.data.batch_plan.packing import RowPattern, lay_out, pack_patterns
from torchdeck.data.batch_plan.plan import BatchPlan
from torchdeck.data.batch_plan.plan_settings import PlanSettings, checked_buckets

Bits = npt.NDArray[np.uint64]


@arguments(own_checks=True)
def build_batch_plan(
    lengths: npt.ArrayLike,
    *,
    token_budget: int,
    seed: int = 0,
    epochs: int = 1,
    buckets: int | Sequence[int] = 32,
    max_length: int | None = None,
    too_long: str = "error",
    empty: str = "error",
    pack: bool = False,
    pad_to: str = "longest",
    dataset_fingerprint: str = "",
    tokenizer_fingerprint: str = "",
    progress: Progress | None = None,
) -> BatchPlan:
    """Return a schedule of microbatches of at most `token_budget` tokens each, padding included.

    The same arguments give the same plan, byte for byte, everywhere. `plan.meta.counts` reports how many
    samples were too long or empty, and their treatment.

    Args:
        lengths: tokens of each sample; sample ids are the indices, shape (n,).
        token_budget: maximum tokens per microbatch, padding included.
        seed: seed of the order, 0 to 2⁶⁴ − 1.
        epochs: number of epochs to plan, 1 to 65,536.
        buckets: maximum number of length buckets, or their upper bounds in tokens; unused with `pack`.
        max_length: longest sample in tokens (with `pack`: longest row). Default: the token budget.
        too_long: treatment of longer samples: "error", "truncate" or "drop".
        empty: treatment of samples of length 0: "error" or "drop".
        pack: put several samples into one row of up to `max_length` tokens.
        pad_to: pad to the "longest" sample of the microbatch, or to the "bucket" bound.
        dataset_fingerprint: identifies the data set's content; without it the lengths identify the data set.
        tokenizer_fingerprint: identifies the tokenizer that the lengths were counted with.
        progress: called after each epoch.

    Raises:
        BatchPlanError: a setting is out of range, or the lengths contain what the settings treat as an error.
    """
    chosen = checked_buckets(buckets)
    settings = PlanSettings(token_budget, seed, epochs, chosen, max_length, too_long, empty, pack, pad_to)
    usable = usable_lengths(lengths, settings)
    make, bounds = _packed(usable, settings) if pack else _bucketed(usable, settings)
    meta = PlanMeta(
        settings,
        usable.size,
        bounds,
        dataset_fingerprint or lengths_fingerprint(lengths),
        tokenizer_fingerprint,
        usable.counts,
    )
    made = []
    for epoch in range(settings.epochs):
        made.append(make(epoch))
        if progress is not None:
            progress("epochs planned", epoch + 1, settings.epochs)
    return BatchPlan(meta, made)


MakeEpoch = Callable[[int], EpochColumns]


def _bucketed(usable: UsableLengths, settings: PlanSettings) -> tuple[MakeEpoch, tuple[int, ...]]:
    """Return microbatches of samples of similar length."""
    bounds = choose_bounds(usable.lengths, settings)
    buckets = bucket_ids(usable.lengths, bounds)
    members = np.bincount(buckets, minlength=len(bounds))
    batch_sizes = settings.token_budget // np.asarray(bounds, dtype=np.int64)
    sizes, of_bucket = _cut(members, batch_sizes)
    offsets = offsets_of(sizes)
    caps = np.asarray(bounds, dtype=np.int32)[of_bucket]

    def make(epoch: int) -> EpochColumns:
        stream = _stream(settings.seed, epoch)
        order = _shuffled(stream, buckets, len(bounds))
        ordered = usable.lengths[order]
        longest = np.maximum.reduceat(ordered, offsets[:-1])
        tokens = np.add.reduceat(ordered, offsets[:-1], dtype=np.int32)
        del ordered
        columns = EpochColumns(
            _sample_ids(usable, order),
            offsets,
            caps if settings.pad_to == "bucket" else longest,
            tokens,
            of_bucket.astype(np.int32),
        )
        del order
        return columns.select(_shuffled(stream, np.zeros(len(sizes), dtype=np.uint16), 1))

    return make, bounds


def _packed(usable: UsableLengths, settings: PlanSettings) -> tuple[MakeEpoch, tuple[int, ...]]:
    """Return microbatches of rows that hold several samples each."""
    patterns = pack_patterns(usable.lengths, settings.longest)

    def make(epoch: int) -> EpochColumns:
        return _packed_epoch(usable, settings, patterns, _stream(settings.seed, epoch))

    return make, (settings.longest,)


def _packed_epoch(
    usable: UsableLengths, settings: PlanSettings, patterns: list[RowPattern], stream: np.random.Philox
) -> EpochColumns:
    # first a random order, then a stable sort: equal samples are combined differently each epoch
    order = _shuffled(stream, np.zeros(len(usable.lengths), dtype=np.uint16), 1)
    order = order[np.argsort(usable.lengths[order], kind="stable")]
    laid, row_samples, row_tokens = lay_out(patterns, usable.lengths, order)
    rows = EpochColumns(
        _sample_ids(usable, laid), offsets_of(row_samples), row_tokens, row_tokens, np.zeros_like(row_tokens)
    ).select(_shuffled(stream, np.zeros(len(row_samples), dtype=np.uint16), 1))
    per_microbatch = settings.token_budget // settings.longest
    firsts = np.arange(0, len(rows), per_microbatch)
    longest = np.maximum.reduceat(rows.max_len, firsts)
    return EpochColumns(
        rows.sample_ids,
        rows.offsets[np.append(firsts, len(rows))],
        np.full_like(longest, settings.longest) if settings.pad_to == "bucket" else longest,
        np.add.reduceat(rows.tokens, firsts, dtype=np.int32),
        np.zeros(len(firsts), dtype=np.int32),
        row_offsets=narrow(np.append(firsts, len(rows))),
        row_sizes=np.diff(rows.offsets).astype(np.int32, copy=False),
    )


def _stream(seed: int, epoch: int) -> np.random.Philox:
    return np.random.Philox(key=np.array([seed, epoch], dtype=np.uint64))


def _cut(members: Ints, batch_sizes: Ints) -> tuple[Ints, Ints]:
    """Return samples and bucket of each microbatch if buckets are cut one after the other."""
    counts = -(-members // batch_sizes)
    of_bucket = np.repeat(np.arange(len(members), dtype=np.int64), counts)
    sizes = batch_sizes[of_bucket]
    nonempty = counts > 0
    last = np.cumsum(counts)[nonempty] - 1
    sizes[last] = (members - (counts - 1) * batch_sizes)[nonempty]
    return sizes, of_bucket


def _shuffled(stream: np.random.Philox, groups: npt.NDArray[np.uint16], number: int) -> Ints:
    """Return 0 to n − 1, sorted by group, in random order within each.

    This is one sort of 64-bit words that hold group, random bits and index. All are different, so that every
    sorting algorithm gives the same, and a sort of values is several times faster than one of indices.
    """
    bits: Bits = stream.random_raw(len(groups))
    index_bits = (len(groups) - 1).bit_length()
    group_bits = (number - 1).bit_length()
    mask = np.uint64((1 << index_bits) - 1)
    if group_bits:
        bits >>= np.uint64(group_bits)
        # in chunks: a second array of words would be the largest object in memory
        for first in range(0, len(groups), 1 << 20):
            part = slice(first, first + (1 << 20))
            bits[part] |= groups[part].astype(np.uint64) << np.uint64(64 - group_bits)
    bits &= ~mask
    for first in range(0, len(groups), 1 << 20):
        last = min(first + (1 << 20), len(groups))
        bits[first:last] |= np.arange(first, last, dtype=np.uint64)
    bits.sort()
    bits &= mask
    return bits.view(np.int64)


def _sample_ids(usable: UsableLengths, order: Ints) -> npt.NDArray[np.signedinteger]:
    if usable.ids is None:
        return order.astype(id_type(usable.size))
    return usable.ids[order]


# Bounds between length buckets with the least padding.

_CANDIDATES = 512
"""Most bounds that are tried; the work grows with the square."""
_WIDE = 1 << 24
"""Lengths above this are counted by sorting instead of in a table."""
_FULL_MICROBATCHES = 4
"""Full microbatches that a bucket should have, since the last one of each is rarely full."""


def choose_bounds(lengths: npt.NDArray[np.int32], settings: PlanSettings) -> tuple[int, ...]:
    """Return upper bounds of the buckets, inclusive and ascending; the last is the longest of `lengths`.

    Given bounds are used as they are, without those that no sample needs. Otherwise those of least
    padding among `_CANDIDATES`, by dynamic programming over the histogram (the one-dimensional k-segmentation
    of Bellman, "On the approximation of curves by line segments using dynamic programming", CACM 4, 1961).

    Args:
        lengths: of all samples, at least 1 each, shape (n,).
        settings: `buckets` and `token_budget` are used.
    """
    longest = int(lengths.max())
    if isinstance(settings.buckets, tuple):
        given: Sequence[int] = settings.buckets
        return (*(bound for bound in given if bound < longest), longest)
    values, counts = _histogram(lengths, longest)
    enough = int(values @ counts) // (_FULL_MICROBATCHES * settings.token_budget)
    return _least_padding(values, counts, max(1, min(settings.buckets, enough)))


def bucket_ids(lengths: npt.NDArray[np.int32], bounds: Sequence[int]) -> npt.NDArray[np.uint16]:
    """Return the bucket of each length, shape (n,)."""
    result = np.empty(len(lengths), dtype=np.uint16)
    edges = np.asarray(bounds, dtype=np.int32)
    for first in range(0, len(lengths), 1 << 20):
        part = slice(first, first + (1 << 20))
        result[part] = np.searchsorted(edges, lengths[part], side="left")
    return result


def _histogram(lengths: npt.NDArray[np.int32], longest: int) -> tuple[Ints, Ints]:
    """Return the lengths that occur, ascending, and how often each does."""
    if longest > _WIDE:
        values, counts = np.unique(lengths, return_counts=True)
        return values.astype(np.int64), counts.astype(np.int64)
    table = np.bincount(lengths)
    present = np.flatnonzero(table)
    return present.astype(np.int64), table[present].astype(np.int64)


def _least_padding(values: Ints, counts: Ints, buckets: int) -> tuple[int, ...]:
    """Return at most `buckets` of `values`, including the last, as bounds with the least padding."""
    tokens = np.cumsum(values * counts)
    if len(values) > _CANDIDATES:
        # equal shares of the tokens: long samples are few, but their padding is long too
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
