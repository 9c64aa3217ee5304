"""How many optimizer steps a training has."""

from __future__ import annotations

import math

from torchdeck.data.order import Position, steps_per_epoch
from torchdeck.distributed.settings import TrainingSettings


def total_steps(training: TrainingSettings, size: int, global_batch: int, position: Position) -> int:
    """Optimizer steps in all, those before `position` included.

    In epochs, what is left of them is counted from `position` on, as the steps before may have had another
    global batch.

    Args:
        training: says steps or epochs.
        size: samples of the data set.
        global_batch: samples of one step.
        position: where training is.
    """
    if training.steps is not None:
        return training.steps
    left = _steps_left(training.epochs or 0.0, size, global_batch, position)
    return max(1, position.step + left)


def _steps_left(epochs: float, size: int, global_batch: int, position: Position) -> int:
    whole = math.floor(epochs)
    # the fraction at the end is a whole number of steps, as in torchdeck.data.order.steps_for_epochs
    tail = min(size, math.ceil((epochs - whole) * size / global_batch) * global_batch)
    if position.epoch > whole:
        return 0
    if position.epoch == whole:
        return max(0, -(-(tail - position.consumed) // global_batch))
    this_epoch = -(-(size - position.consumed) // global_batch)
    between = (whole - position.epoch - 1) * steps_per_epoch(size, global_batch)
    return this_epoch + between + -(-tail // global_batch)
