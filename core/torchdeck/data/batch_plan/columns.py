"""One epoch of a batch plan in columns, and lightweight views of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from torchdeck.contract.refusal import Refusal

Column = npt.NDArray[np.signedinteger[Any]]
"""Integers in the narrowest of int32 and int64 that holds them."""
Ints = npt.NDArray[np.int64]

_CHUNK = 1 << 20
"""Items gathered, or microbatches viewed, at a time."""
_VIEWED = 4096


@dataclass(frozen=True, eq=False, slots=True)
class Microbatch:
    """A microbatch: the samples of one forward and backward pass.

    Attributes:
        index: its index in the epoch (of a shard: in the shard's epoch).
        sample_ids: shape (batch_size,), read-only.
        max_len: number of tokens to which each row is padded.
        bucket_id: its length bucket.
        tokens: tokens of its samples, without padding.
        row_sizes: samples in each row, shape (rows,); None if each sample has its own row.
    """

    index: int
    sample_ids: Column
    max_len: int
    bucket_id: int
    tokens: int
    row_sizes: Column | None

    @property
    def batch_size(self) -> int:
        """Number of samples."""
        return len(self.sample_ids)

    @property
    def rows(self) -> int:
        """Number of sequences of `max_len` tokens; fewer than samples if these are packed."""
        return self.batch_size if self.row_sizes is None else len(self.row_sizes)

    @property
    def padded_tokens(self) -> int:
        """Number of tokens that the model computes, padding included."""
        return self.rows * self.max_len

    @property
    def packs(self) -> list[Column] | None:
        """Sample ids of each row; None if each sample has its own row."""
        if self.row_sizes is None:
            return None
        return np.split(self.sample_ids, np.cumsum(self.row_sizes)[:-1])


@dataclass(frozen=True, eq=False)
class EpochColumns:
    """Microbatches of one epoch: M of them, with N samples in R rows.

    Attributes:
        sample_ids: microbatch after microbatch, shape (N,).
        offsets: start of each in `sample_ids`, and N; shape (M + 1,).
        max_len: tokens that a row is padded to, shape (M,).
        tokens: without padding, shape (M,).
        bucket_id: shape (M,).
        row_offsets: start of each in `row_sizes`, and R; shape (M + 1,). None without packing.
        row_sizes: samples in each row, shape (R,). None without packing.
    """

    sample_ids: Column
    offsets: Column
    max_len: Column
    tokens: Column
    bucket_id: Column
    row_offsets: Column | None = None
    row_sizes: Column | None = None

    def __len__(self) -> int:
        """Return M."""
        return len(self.max_len)

    def check(self) -> None:
        """Raise BatchPlanError unless the arrays fit each other; cheap, whatever their size."""
        count = len(self)
        parts = [("sample_ids", self.sample_ids, self.offsets)]
        if (self.row_sizes is None) != (self.row_offsets is None):
            raise BatchPlanError("row_sizes and row_offsets go together, but one is missing")
        if self.row_sizes is not None and self.row_offsets is not None:
            parts.append(("row_sizes", self.row_sizes, self.row_offsets))
        if len(self.tokens) != count or len(self.bucket_id) != count:
            raise BatchPlanError(f"columns of {count} microbatches differ in length")
        for name, values, offsets in parts:
            if len(offsets) != count + 1 or offsets[0] != 0 or offsets[-1] != len(values):
                raise BatchPlanError(f"the offsets of {count} microbatches do not fit {name}")

    @property
    def batch_size(self) -> Column:
        """Return the samples of each microbatch, shape (M,)."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> Column:
        """Return the padded sequences of each microbatch, shape (M,)."""
        return np.diff(self.offsets if self.row_offsets is None else self.row_offsets)

    @property
    def padded_tokens(self) -> Ints:
        """Return the tokens computed, padding included, of each microbatch, shape (M,)."""
        return np.multiply(self.rows, self.max_len, dtype=np.int64)

    def microbatch(self, index: int) -> Microbatch:
        """Return microbatch `index`, from 0."""
        return next(self.iterate(index, index + 1))

    def iterate(self, start: int = 0, stop: int | None = None) -> Iterator[Microbatch]:
        """Yield microbatches from `start` to before `stop`, in order; each is created on demand."""
        end = len(self) if stop is None else min(stop, len(self))
        for first in range(start, end, _VIEWED):
            yield from self._views(first, min(first + _VIEWED, end))

    def _views(self, first: int, last: int) -> Iterator[Microbatch]:
        starts = self.offsets[first : last + 1].tolist()
        rows = None if self.row_offsets is None else self.row_offsets[first : last + 1].tolist()
        values = zip(
            self.max_len[first:last].tolist(),
            self.bucket_id[first:last].tolist(),
            self.tokens[first:last].tolist(),
            strict=True,
        )
        for at, (max_len, bucket_id, tokens) in enumerate(values):
            ids = self.sample_ids[starts[at] : starts[at + 1]]
            sizes = (
                None if rows is None or self.row_sizes is None else self.row_sizes[rows[at] : rows[at + 1]]
            )
            yield Microbatch(first + at, ids, max_len, bucket_id, tokens, sizes)

    def select(self, chosen: Ints) -> EpochColumns:
        """Return the microbatches `chosen`, in that order, as columns of their own.

        Args:
            chosen: indices, shape (m,).
        """
        ids, offsets = _gather(self.sample_ids, self.offsets, chosen)
        rows: tuple[Column, Column] | tuple[None, None] = (None, None)
        if self.row_offsets is not None and self.row_sizes is not None:
            rows = _gather(self.row_sizes, self.row_offsets, chosen)
        return EpochColumns(
            ids,
            offsets,
            self.max_len[chosen],
            self.tokens[chosen],
            self.bucket_id[chosen],
            row_offsets=rows[1],
            row_sizes=rows[0],
        )


def narrow(values: npt.NDArray[Any]) -> Column:
    """Return `values` (from 0) as int32 if they fit, else as int64."""
    fits = len(values) == 0 or int(values.max()) <= np.iinfo(np.int32).max
    return values.astype(np.int32 if fits else np.int64, copy=False)


def offsets_of(sizes: npt.NDArray[Any]) -> Column:
    """Return the offsets of consecutive slices of the given `sizes`, and the end of the last; shape (n +
    1,).
    """
    ends = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=ends[1:])
    return narrow(ends)


def _gather(values: Column, offsets: Column, chosen: Ints) -> tuple[Column, Column]:
    """Return the slices `chosen` of `values`, concatenated, and their offsets."""
    begins = offsets[:-1][chosen]
    sizes = offsets[1:][chosen] - begins
    new_offsets = offsets_of(sizes)
    result = np.empty(int(new_offsets[-1]), dtype=values.dtype)
    first = 0
    while first < len(chosen):
        # as many slices as fit the chunk, but at least one: the index of a whole epoch would be twice its
        # size
        reach = int(np.searchsorted(new_offsets, int(new_offsets[first]) + _CHUNK, side="right")) - 1
        last = max(first + 1, reach)
        low, high = int(new_offsets[first]), int(new_offsets[last])
        shift = begins[first:last].astype(np.int64) - new_offsets[first:last]
        index = np.arange(low, high, dtype=np.int64)
        index += np.repeat(shift, sizes[first:last])
        result[low:high] = values[index]
        first = last
    return result, new_offsets


class BatchPlanError(Refusal, ValueError):
    """A batch plan cannot be built, read, written or sharded; the message says what to do."""

    page = "data#batch-plans"
