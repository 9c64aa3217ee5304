"""Allocations and frees over a step in order, and the points where their sum is largest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Sizes = npt.NDArray[np.int64]


class Term(IntEnum):
    """Purpose of allocated memory."""

    PARAMETERS = 0
    """Parameters as stored: whole, or this rank's shards with their padding."""
    GRADIENTS = 1
    """Gradients of whole parameters until they are reduced, and what remains of them for the optimizer."""
    OPTIMIZER = 2
    GATHERED = 3
    """Units whose weights are gathered for computing, and the buffers they are gathered into."""
    BUCKETS = 4
    """Communication buffers: DDP's buckets, reduce-scatter, gloo's copies."""
    ACTIVATIONS = 5
    LOGITS = 6
    """Logits, loss, and the tensors they keep for backward."""
    INPUTS = 7
    CASTS = 8
    """Copies of weights in the forward's precision, made by autocast."""
    BUFFERS = 9
    """The model's buffers."""
    CONTEXT = 10
    """Memory the device's runtime takes before the first tensor."""
    KERNELS = 11
    """Copies in a kernel's own layout and workspace, on the CPU."""

    @property
    def label(self) -> str:
        """Name of the term in predictions."""
        return self.name.lower()


@dataclass(frozen=True)
class Peak:
    """Largest sum in one phase."""

    phase: str
    """`setup`, `forward`, `backward` or `optimizer`."""
    total: int
    terms: Mapping[Term, int]
    """Bytes per term; terms of 0 bytes are omitted."""


class Timeline:
    """Allocations in order of time, by term and phase.

    Attributes:
        phase: phase of the events added next.
    """

    def __init__(self, phase: str = "setup") -> None:
        self.phase = phase
        self._phases: list[tuple[str, int]] = []
        """Phase, and the number of rows in it, one entry a chunk."""
        self._terms: list[npt.NDArray[np.int8]] = []
        self._values: list[Sizes] = []
        self._pending: list[tuple[int, int]] = []
        """Rows that are not a chunk yet: term, bytes."""

    def add(self, term: Term, size: int) -> None:
        """Add `size` bytes to `term`; negative if freed."""
        if size:
            self._pending.append((term, size))

    def spike(self, term: Term, size: int) -> None:
        """Add `size` bytes that are freed at once."""
        self.add(term, size)
        self.add(term, -size)

    def extend(self, terms: npt.NDArray[np.int8], values: Sizes) -> None:
        """Add many events in order, shape (n,) each."""
        self._flush()
        self._append(terms, values)

    def enter(self, phase: str) -> None:
        """Begin `phase`. All following events belong to it, and so does the memory that is allocated now."""
        self._flush()
        self.phase = phase
        self._append(np.zeros(1, dtype=np.int8), np.zeros(1, dtype=np.int64))

    def peaks(self) -> list[Peak]:
        """Return the peak of each phase, in order of first appearance; memory still held from earlier phases
        counts.
        """
        self._flush()
        if not self._values:
            return []
        values = np.concatenate(self._values)
        terms = np.concatenate(self._terms)
        alive = np.cumsum(values)
        best: dict[str, int] = {}
        start = 0
        for phase, count in self._phases:
            where = start + int(alive[start : start + count].argmax())
            if phase not in best or alive[where] > alive[best[phase]]:
                best[phase] = where
            start += count
        return [
            Peak(phase, int(alive[where]), _by_term(terms[: where + 1], values[: where + 1]))
            for phase, where in best.items()
        ]

    def _flush(self) -> None:
        if self._pending:
            rows = np.array(self._pending, dtype=np.int64)
            self._pending = []
            self._append(rows[:, 0].astype(np.int8), rows[:, 1])

    def _append(self, terms: npt.NDArray[np.int8], values: Sizes) -> None:
        if len(values):
            self._phases.append((self.phase, len(values)))
            self._terms.append(terms)
            self._values.append(values)


def _by_term(terms: npt.NDArray[np.int8], values: Sizes) -> dict[Term, int]:
    found = {term: int(values[terms == term].sum()) for term in Term}
    return {term: size for term, size in found.items() if size}
