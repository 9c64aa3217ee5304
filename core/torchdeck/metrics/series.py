"""Result types of the metrics reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

import numpy as np
from numpy.typing import NDArray

Owner = Union[int, str]  # noqa: UP007 - evaluated here, where Python 3.10 reads it
"""Owner of a series: a rank by its number, a node by its name."""


@dataclass(frozen=True)
class Series:
    """All rows of one metric of one owner, in the order of attempts and of time within one.

    Attributes:
        steps: int64, shape (n,).
        times: float64, unix seconds, shape (n,).
        values: float64, shape (n,).
        attempts: int32, the attempt that wrote each row, shape (n,); 0 for system series.
    """

    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    values: NDArray[np.float64]
    attempts: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.steps)

    @classmethod
    def empty(cls) -> Series:
        return cls(
            np.empty(0, np.int64), np.empty(0, np.float64), np.empty(0, np.float64), np.empty(0, np.int32)
        )

    @classmethod
    def joined(cls, parts: list[Series]) -> Series:
        """Return the rows of several series as one, sorted by (attempt, time); equal times keep their
        order.
        """
        if len(parts) < 2:
            return parts[0] if parts else cls.empty()
        whole = cls(
            np.concatenate([part.steps for part in parts]),
            np.concatenate([part.times for part in parts]),
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.attempts for part in parts]),
        )
        return whole.picked(np.lexsort((whole.times, whole.attempts)))

    def picked(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> Series:
        """Return the rows selected by a mask or an array of indices."""
        return Series(self.steps[which], self.times[which], self.values[which], self.attempts[which])


@dataclass(frozen=True)
class Latest:
    """The newest row of a metric; `time` in unix seconds."""

    step: int
    time: float
    value: float
    attempt: int
