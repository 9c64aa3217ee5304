"""Batches of every rank, put together again."""

import multiprocessing
import random
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.order import Position, SampleOrder
from torchdeck.distributed.batches import BatchLoader, BatchShape, StepBatches, evaluation_batches

Steps = list[tuple[int, Position, list[tuple[list[int], int]]]]


def loader(size: int, shape: BatchShape, workers: int = 0) -> BatchLoader:
    order = SampleOrder(size, seed=3)
    return BatchLoader(range(size), order, shape, collate=list, workers=workers, timeout=30)


def read(step: StepBatches) -> tuple[int, Position, list[tuple[list[int], int]]]:
    microbatches = [(microbatch.batch, microbatch.samples) for microbatch in step.microbatches]
    assert len(microbatches) == step.accumulation
    return step.samples, step.after, microbatches


@settings(deadline=None, max_examples=40)
@given(
    size=st.integers(1, 50),
    microbatch=st.integers(1, 5),
    accumulation=st.integers(1, 3),
    world_size=st.integers(1, 4),
    count=st.integers(0, 12),
)
def test_ranks_together_read_the_order(
    size: int, microbatch: int, accumulation: int, world_size: int, count: int
) -> None:
    """All ranks make the same steps; what counts is each epoch's order, every sample once."""
    shapes = [BatchShape(microbatch, accumulation, rank, world_size) for rank in range(world_size)]
    ranks = [list(map(read, loader(size, shape).steps(Position(), count))) for shape in shapes]
    assert all([step[:2] for step in rank] == [step[:2] for step in ranks[0]] for rank in ranks)
    assert len(ranks[0]) == count
    seen: list[int] = []
    for steps in zip(*ranks, strict=True):
        parts = [steps[rank][2][index] for index in range(accumulation) for rank in range(world_size)]
        assert all(len(batch) == max(1, counted) for batch, counted in parts)
        seen += [sample for batch, counted in parts for sample in batch[:counted]]
        assert sum(counted for _, counted in parts) == steps[0][0]
    order = SampleOrder(size, seed=3)
    wanted = [sample for epoch in range(count + 1) for sample in order.epoch(epoch).tolist()]
    assert seen == wanted[: len(seen)]


def test_goes_on_from_a_position() -> None:
    """Steps after a position are those an unbroken reading has there, over the end of the epoch too."""
    shape = BatchShape(2, 2, 1, 2)
    whole: Steps = [read(step) for step in loader(21, shape).steps(Position(), 9)]
    rest: Steps = [read(step) for step in loader(21, shape).steps(whole[3][1], 5)]
    assert rest == whole[4:]


class Noisy:
    """Samples with random numbers of all three generators in them."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[int, float, float]:
        return index, random.random(), float(torch.rand(()))  # noqa: S311 - the generator under test


def test_random_samples_do_not_depend_on_workers() -> None:
    """With 1 worker or 2, from the start or resumed, a sample of an epoch draws the same; epochs differ."""
    shape, order = BatchShape(3, 1, 0, 1), SampleOrder(12, seed=8)

    def samples(workers: int, start: Position, count: int) -> list[list[tuple[int, float, float]]]:
        batches = BatchLoader(Noisy(), order, shape, collate=list, workers=workers, timeout=30)
        return [read(step)[2][0][0] for step in batches.steps(start, count)]  # type: ignore[misc]

    one = samples(1, Position(), 8)
    assert samples(2, Position(0, 6, 2), 6) == one[2:]
    draws = {row[1] for batch in one for row in batch}
    assert len(draws) == 24


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers import what they load")
def test_workers_need_not_import_the_data_set() -> None:
    """Under a start method that pickles (Python 3.14's default), a recipe file's classes still load."""
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("spawn", force=True)
    try:
        batches = BatchLoader(
            Noisy(),
            SampleOrder(12, seed=8),
            BatchShape(3, 1, 0, 1),
            collate=lambda rows: rows,
            workers=1,
            timeout=30,
        )
        assert len([read(step) for step in batches.steps(Position(), 4)]) == 4
    finally:
        multiprocessing.set_start_method(before, force=True)


def test_reading_does_not_touch_the_generator_of_dropout() -> None:
    """torch's default generator is the same before and after an epoch."""
    before = torch.random.get_rng_state()
    list(map(read, loader(10, BatchShape(2, 1, 0, 1)).steps(Position(), 5)))
    assert torch.equal(before, torch.random.get_rng_state())


@settings(deadline=None)
@given(
    size=st.integers(1, 60),
    microbatch=st.integers(1, 7),
    limit=st.integers(1, 9),
    world_size=st.integers(1, 5),
)
def test_evaluation_is_the_same_at_any_world_size(
    size: int, microbatch: int, limit: int, world_size: int
) -> None:
    """Ranks have equally many batches, together the samples that one rank would have, none twice."""
    (alone,) = [evaluation_batches(size, microbatch, limit, rank=0, world_size=1)]
    ranks = [
        evaluation_batches(size, microbatch, limit, rank=r, world_size=world_size) for r in range(world_size)
    ]
    assert len({len(rank) for rank in ranks}) == 1
    together = sorted(sample for rank in ranks for batch in rank for sample in batch)
    assert together == sorted(sample for batch in alone for sample in batch)
    assert len(set(together)) == len(together) == min(size, microbatch * limit)
    assert all(0 <= sample < size for sample in together)
    assert all(len(batch) <= microbatch for rank in ranks for batch in rank)
