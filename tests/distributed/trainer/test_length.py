"""Optimizer steps of a training."""

from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.order import Position, SampleOrder, global_batches, steps_for_epochs
from torchdeck.distributed.settings import TrainingSettings
from torchdeck.distributed.trainer.length import total_steps


def training(steps: int | None = None, epochs: float | None = None) -> TrainingSettings:
    return TrainingSettings(
        steps=steps, epochs=epochs, microbatch=1, accumulation=1, optimizer="sgd", lr=1.0, scaled_lr=1.0
    )


def test_steps_are_steps() -> None:
    """Said in steps, the data does not matter."""
    assert total_steps(training(steps=7), 100, 3, Position(2, 5, 6)) == 7


@settings(deadline=None)
@given(
    size=st.integers(1, 40), batch=st.integers(1, 12), quarters=st.integers(1, 16), done=st.integers(0, 30)
)
def test_epochs_count_the_same_from_everywhere(size: int, batch: int, quarters: int, done: int) -> None:
    """From the start it is the planner's number, and resuming at any step before the end changes nothing."""
    epochs = quarters / 4
    planned = steps_for_epochs(size, batch, epochs)
    assert total_steps(training(epochs=epochs), size, batch, Position()) == planned
    position = Position()
    for step in global_batches(SampleOrder(size, 0), batch):
        if step.after.step > min(done, planned):
            break
        position = step.after
    assert total_steps(training(epochs=epochs), size, batch, position) == planned


def test_another_global_batch_finishes_the_epochs() -> None:
    """Half an epoch at 2 samples a step, then 4 a step: what is left of two epochs is counted anew."""
    assert total_steps(training(epochs=2.0), 20, 4, Position(0, 10, 5)) == 5 + 3 + 5


def test_nothing_left() -> None:
    """Past the end there is no step more."""
    assert total_steps(training(epochs=1.0), 20, 4, Position(1, 8, 7)) == 7
