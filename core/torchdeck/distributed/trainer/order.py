"""Where a training's steps come from."""

from __future__ import annotations

from torchdeck.data.order import SampleOrder
from torchdeck.data.step_order import SeededSteps, StepOrder
from torchdeck.distributed.settings import TrainingSettings


def make_order(training: TrainingSettings, size: int, world_size: int) -> StepOrder:
    """The steps of a training over `size` samples at `world_size` ranks."""
    return SeededSteps(
        SampleOrder(size, training.seed),
        microbatch=training.microbatch,
        accumulation=training.accumulation,
        world_size=world_size,
    )
