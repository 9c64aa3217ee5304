"""Optimizer steps of a training in an order that the seed gives."""

from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.order import Position, SampleOrder, global_batches
from torchdeck.data.step_order import SeededSteps


def steps_of(size: int, global_batch: int) -> SeededSteps:
    return SeededSteps(SampleOrder(size, 0), microbatch=global_batch, accumulation=1, world_size=1)


def test_steps_are_steps() -> None:
    """Said in steps, the data does not matter."""
    assert steps_of(100, 3).total_steps(7, None, Position(2, 5, 6)) == 7


@settings(deadline=None)
@given(
    size=st.integers(1, 40), batch=st.integers(1, 12), quarters=st.integers(1, 16), done=st.integers(0, 30)
)
def test_epochs_count_the_same_from_everywhere(size: int, batch: int, quarters: int, done: int) -> None:
    """Resuming at any step before the end changes nothing."""
    epochs = quarters / 4
    planned = steps_of(size, batch).total_steps(None, epochs, Position())
    position = Position()
    for step in global_batches(SampleOrder(size, 0), batch):
        if step.after.step > min(done, planned):
            break
        position = step.after
    assert steps_of(size, batch).total_steps(None, epochs, position) == planned


def test_another_global_batch_finishes_the_epochs() -> None:
    """Half an epoch at 2 samples a step, then 4 a step: what is left of two epochs is counted again."""
    assert steps_of(20, 4).total_steps(None, 2.0, Position(0, 10, 5)) == 5 + 3 + 5


def test_nothing_left() -> None:
    """Past the end there is no step more."""
    assert steps_of(20, 4).total_steps(None, 1.0, Position(1, 8, 7)) == 7
