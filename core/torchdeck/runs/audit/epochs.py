"""Whether each sample of an epoch was used exactly once, whatever step and rank it came in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from torchdeck.data.step_order import DataPosition, StepOrder

_WITHIN_EPOCH = ("consumed", "microbatches")
"""What positions call the part of an epoch that is used."""


class EpochIds:
    """Gathers the ids of one epoch after the other.

    Attributes:
        whole: epochs in which each sample was used exactly once.
    """

    def __init__(self) -> None:
        self.whole = 0
        self._ids: list[npt.NDArray[Any]] = []
        self._gathers = False

    def begin(self, start: DataPosition) -> None:
        """Steps follow from `start` on; an epoch that began before cannot be judged."""
        self._ids.clear()
        self._gathers = not any(start.to_json().get(name) for name in _WITHIN_EPOCH)

    def add(self, ids: Iterable[npt.NDArray[Any]]) -> None:
        """What was used in one step, by all ranks."""
        if self._gathers:
            self._ids.extend(ids)

    def end(self, order: StepOrder, epoch: int) -> str:
        """What is wrong with the epoch that ends here, as a sentence; empty where nothing is."""
        gathered, self._gathers = self._gathers, True
        if not gathered:
            return ""
        ids = np.concatenate(self._ids)
        self._ids.clear()
        times = np.bincount(ids, minlength=order.size)
        twice = np.flatnonzero(times > 1)
        missing = order.epoch_samples(epoch) - np.count_nonzero(times)
        if len(twice):
            more = f", and {len(twice) - 1} others more than once" if len(twice) > 1 else ""
            return f"sample {twice[0]} was used {times[twice[0]]} times in epoch {epoch}{more}"
        if missing:
            first = f", such as sample {np.argmin(times)}" if order.epoch_samples(epoch) == order.size else ""
            return f"{missing} samples were never used in epoch {epoch}{first}"
        self.whole += 1
        return ""
