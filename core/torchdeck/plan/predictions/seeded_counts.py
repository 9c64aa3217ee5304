"""What ranks read when samples come in a seeded order: counted by arithmetic, not by drawing the order.

The rules are those of `torchdeck.data.order`: a full step gives every microbatch its whole size, and the last
step of an epoch is cut into parts that differ by at most one sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from torchdeck.data.order import steps_per_epoch

Counts = npt.NDArray[np.int64]
"""One number a rank, shape (world size,)."""


@dataclass(frozen=True)
class SeededCounts:
    """Steps over a data set in a seeded order, every number at least 1."""

    size: int
    """Samples of the data set."""
    microbatch: int
    accumulation: int
    world_size: int

    @property
    def global_batch(self) -> int:
        """Samples of a full step."""
        return self.microbatch * self.accumulation * self.world_size

    @property
    def per_epoch(self) -> int:
        """Steps of one epoch, the partial last one included."""
        return steps_per_epoch(self.size, self.global_batch)

    def samples(self, steps: int) -> Counts:
        """Samples that each rank reads in the first `steps` steps."""
        epochs, rest = divmod(steps, self.per_epoch)
        full, left = divmod(self.size, self.global_batch)
        full_steps = epochs * full + min(rest, full)
        whole = full_steps * self.microbatch * self.accumulation
        return whole + epochs * self._parts(left)

    def _parts(self, left: int) -> Counts:
        """Samples of each rank in a step of `left` samples."""
        parts = self.accumulation * self.world_size
        edges = np.arange(parts + 1, dtype=np.int64) * left // parts
        sizes: Counts = np.diff(edges)
        counts: Counts = sizes.reshape(self.accumulation, self.world_size).sum(axis=0)
        return counts
