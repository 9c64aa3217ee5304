"""Packing of samples into rows, over the histogram of lengths.

Longest first, each length into the fullest rows it still fits, whole groups of equal rows at a time, as in
"Longest-pack-first histogram-packing" of Krell et al., "Efficient Sequence Packing without
Cross-contamination", arXiv:2107.02027. The work grows with the number of different lengths, not of samples.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from torchdeck.data.batch_plan.columns import Ints


@dataclass(frozen=True)
class RowPattern:
    """Rows with the same composition.

    Attributes:
        count: number of such rows.
        parts: (length, samples of that length) from the longest to the shortest.
    """

    count: int
    parts: tuple[tuple[int, int], ...]

    @property
    def samples(self) -> int:
        """Return the samples in one row."""
        return sum(number for _, number in self.parts)

    @property
    def tokens(self) -> int:
        """Return the tokens in one row, without padding."""
        return sum(length * number for length, number in self.parts)


def pack_patterns(lengths: npt.NDArray[np.int32], capacity: int) -> list[RowPattern]:
    """Return rows that hold each of `lengths` once.

    Args:
        lengths: 1 to `capacity` each, shape (n,).
        capacity: tokens of a row.
    """
    values, counts = np.unique(lengths, return_counts=True)
    space = _OpenRows()
    done: list[RowPattern] = []
    for length, count in zip(values[::-1].tolist(), counts[::-1].tolist(), strict=True):
        left = count
        while left:
            rows = space.fullest(length)
            if rows is None:
                fit = capacity // length
                whole, rest = divmod(left, fit)
                space.add(RowPattern(whole, ((length, fit),)), capacity - fit * length)
                space.add(RowPattern(min(rest, 1), ((length, rest),)), capacity - rest * length)
                break
            pattern, room = rows
            if left < pattern.count:
                space.add(RowPattern(pattern.count - left, pattern.parts), room)
                pattern, number = RowPattern(left, pattern.parts), 1
            else:
                number = min(room // length, left // pattern.count)
            left -= number * pattern.count
            filled = RowPattern(pattern.count, (*pattern.parts, (length, number)))
            space.add(filled, room - number * length)
    done += space.close()
    return done


def lay_out(
    patterns: list[RowPattern], lengths: npt.NDArray[np.int32], order: Ints
) -> tuple[Ints, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Assign samples row after row, taken for each length in the order given.

    Args:
        patterns: result of `pack_patterns`.
        lengths: the same, shape (n,).
        order: indices of `lengths` by ascending length, shape (n,).

    Returns:
        Indices of `lengths` row after row, shape (n,); samples and tokens of each row, shape (R,).
    """
    values, firsts = np.unique(lengths[order], return_index=True)
    next_of = dict(zip(values.tolist(), firsts.tolist(), strict=True))
    blocks = []
    for pattern in patterns:
        parts = []
        for length, number in pattern.parts:
            first = next_of[length]
            next_of[length] = last = first + number * pattern.count
            parts.append(order[first:last].reshape(pattern.count, number))
        blocks.append(np.concatenate(parts, axis=1).reshape(-1))
    repeats = [pattern.count for pattern in patterns]
    sizes = np.repeat(np.array([pattern.samples for pattern in patterns], dtype=np.int32), repeats)
    tokens = np.repeat(np.array([pattern.tokens for pattern in patterns], dtype=np.int32), repeats)
    return np.concatenate(blocks), sizes, tokens


class _OpenRows:
    """Rows with free space, indexed by its size."""

    def __init__(self) -> None:
        self._rooms: list[int] = []
        self._patterns: dict[int, list[RowPattern]] = {}
        self._full: list[RowPattern] = []

    def add(self, pattern: RowPattern, room: int) -> None:
        if not pattern.count:
            return
        if not room:
            self._full.append(pattern)
            return
        if room not in self._patterns:
            insort(self._rooms, room)
            self._patterns[room] = []
        self._patterns[room].append(pattern)

    def fullest(self, length: int) -> tuple[RowPattern, int] | None:
        """Remove and return rows with the least free space that fits `length`; None if there are none."""
        at = bisect_left(self._rooms, length)
        if at == len(self._rooms):
            return None
        room = self._rooms[at]
        patterns = self._patterns[room]
        pattern = patterns.pop()
        if not patterns:
            del self._patterns[room], self._rooms[at]
        return pattern, room

    def close(self) -> list[RowPattern]:
        """Return all rows, the full ones first."""
        left = [pattern for room in self._rooms for pattern in self._patterns[room]]
        return [*self._full, *left]
