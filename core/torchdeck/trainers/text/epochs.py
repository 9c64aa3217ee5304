"""Steps of lines that count them by epoch: "Epoch [2/5], Step [100/600]", and "iter 10/100" below "Epoch 2".

Standard library, Python 3.10: the agent reads output with it.
"""

from __future__ import annotations

from torchdeck.trainers.text.line import Line
from torchdeck.trainers.text.training_bar import BarPosition


class EpochSteps:
    """Makes one rising step of the steps of epochs."""

    def __init__(self) -> None:
        self._epoch: float | None = None
        self._epochs: int | None = None
        self._first: float | None = None
        self._last = -1
        self._last_epoch: float | None = None
        self._length: int | None = None
        self._global = False
        self._offset = 0

    def take(self, line: Line) -> BarPosition | None:
        """Return the position that a line names; None if it names no step."""
        if line.epoch is not None and not line.stage:
            self._epoch = line.epoch
            if self._first is None:
                self._first = 0.0 if line.from_zero or line.epoch == 0 else 1.0
        if line.epochs is not None:
            self._epochs = line.epochs
        if line.step is None:
            return None
        if line.stage:
            return BarPosition(line.step + self._offset, None, self._epoch)
        if line.restarts and line.total:
            return self._of_epoch(line, line.total)
        if line.total and self._epoch is not None and line.epoch is None:
            return self._below_heading(line, line.total)
        self._last = line.step
        return BarPosition(line.step, line.total, line.epoch)

    def _of_epoch(self, line: Line, length: int) -> BarPosition:
        """Return the position of "Epoch [2/5], Step [100/600]"."""
        step, epoch = line.step or 0, line.epoch or 0.0
        passed = self._last_epoch is not None and epoch > self._last_epoch
        if passed and step > self._last:
            self._global = True  # it continues to rise across epochs
        self._last, self._last_epoch = step, epoch
        if self._global or step > length:
            return BarPosition(step, length, epoch)
        before = max(0, int(epoch - (self._first or 0.0)))
        total = self._epochs * length if self._epochs else None
        return BarPosition(before * length + step, total, epoch)

    def _below_heading(self, line: Line, length: int) -> BarPosition:
        """Return the position of "iter 10/100" below "Epoch 2"."""
        step = line.step or 0
        if self._epoch != self._last_epoch:
            if self._last_epoch is not None and step <= self._last:
                self._offset += self._length or self._last
            elif self._last_epoch is not None:
                self._global = True
            self._last_epoch = self._epoch
        self._last, self._length = step, length
        if self._global:
            return BarPosition(step, length, self._epoch)
        total = self._epochs * length if self._epochs else None
        return BarPosition(self._offset + step, total, self._epoch)
