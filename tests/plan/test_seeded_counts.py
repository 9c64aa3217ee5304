"""What ranks read in a seeded order, against the order itself."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.order import SampleOrder, global_batches
from torchdeck.plan.prediction import SeededCounts

FEW = st.integers(1, 5)


@settings(deadline=None)
@given(st.integers(1, 60), FEW, FEW, FEW, st.integers(0, 12))
def test_counts_are_those_of_the_order(
    size: int, microbatch: int, accumulation: int, world_size: int, steps: int
) -> None:
    """Arithmetic gives each rank as many samples as walking through the steps does."""
    seeded = SeededCounts(size, microbatch, accumulation, world_size)
    walked = np.zeros(world_size, dtype=np.int64)
    batches = global_batches(SampleOrder(size, 1), seeded.global_batch)
    for batch in itertools.islice(batches, steps):
        for rank, index in itertools.product(range(world_size), range(accumulation)):
            part = batch.microbatch(index, rank, world_size=world_size, accumulation=accumulation)
            walked[rank] += len(part)
    assert seeded.samples(steps).tolist() == walked.tolist()


def test_an_epoch_has_a_short_step_at_its_end() -> None:
    """100 samples, 8 a step: 12 full ones and one of 4."""
    seeded = SeededCounts(size=100, microbatch=2, accumulation=2, world_size=2)
    assert seeded.per_epoch == 13
    assert seeded.samples(13).sum() == 100
