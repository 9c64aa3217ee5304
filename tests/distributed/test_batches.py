"""Batches of every rank, put together again."""

import functools
import multiprocessing
import random
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.order import Position, SampleOrder
from torchdeck.data.step_order import DataPosition, Layout, SeededSteps
from torchdeck.distributed.batches import BatchLoader, StepBatches, evaluation_batches, takes_layout
from torchdeck.distributed.recipe_loading import RecipeError

Read = tuple[int, DataPosition, list[tuple[list[int], int]]]
Shape = tuple[int, int, int, int]
"""Microbatch, accumulation, rank, world size."""


def loader(
    data: Any, shape: Shape, *, seed: int = 3, workers: int = 0, collate: Callable[[Any], Any] = list
) -> BatchLoader:
    microbatch, accumulation, rank, world_size = shape
    order = SeededSteps(
        SampleOrder(len(data), seed), microbatch=microbatch, accumulation=accumulation, world_size=world_size
    )
    return BatchLoader(data, order, rank=rank, seed=seed, collate=collate, workers=workers, timeout=30)


def read(step: StepBatches) -> Read:
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
    shapes = [(microbatch, accumulation, rank, world_size) for rank in range(world_size)]
    ranks = [list(map(read, loader(range(size), shape).steps(Position(), count))) for shape in shapes]
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
    shape = (2, 2, 1, 2)
    whole = [read(step) for step in loader(range(21), shape).steps(Position(), 9)]
    rest = [read(step) for step in loader(range(21), shape).steps(whole[3][1], 5)]
    assert rest == whole[4:]


class Noisy:
    """Samples with random numbers of all three generators in them."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[int, float, float]:
        return index, random.random(), float(torch.rand(()))  # noqa: S311 - the generator under test


@pytest.mark.processes
def test_random_samples_do_not_depend_on_workers() -> None:
    """With 1 worker or 2, from the start or resumed, a sample of an epoch draws the same; epochs differ."""

    def samples(workers: int, start: Position, count: int) -> list[list[tuple[int, float, float]]]:
        batches = loader(Noisy(), (3, 1, 0, 1), seed=8, workers=workers)
        return [read(step)[2][0][0] for step in batches.steps(start, count)]  # type: ignore[misc]

    one = samples(1, Position(), 8)
    assert samples(2, Position(0, 6, 2), 6) == one[2:]
    draws = {row[1] for batch in one for row in batch}
    assert len(draws) == 24


class Fetched:
    """Gives many samples at once, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> str:
        raise AssertionError(index)

    def __getitems__(self, ids: list[int]) -> list[str]:
        self.asked.append([*ids])
        samples = [f"sample {id_}" for id_ in ids]
        ids.clear()  # its own
        return samples


@pytest.mark.processes
@pytest.mark.parametrize("workers", [0, 1])
def test_a_microbatch_says_what_was_asked_of_the_data_set(workers: int) -> None:
    """Ids beside the batch are those that the data set gave; a filler's do not count."""
    data: Any = Fetched() if workers == 0 else [f"sample {id_}" for id_ in range(10)]
    batches = loader(data, (2, 2, 0, 2), workers=workers)
    seen = [
        (microbatch.batch, microbatch.ids.tolist())
        for step in batches.steps(Position(0, 7, 1), 1)
        for microbatch in step.microbatches
    ]
    assert len(seen) == 2
    assert [ids for _, ids in seen].count([]) == 1
    assert all(batch == [f"sample {id_}" for id_ in ids] for batch, ids in seen if ids)
    assert workers or data.asked == [[int(row.split()[1]) for row in batch] for batch, _ in seen]


def test_a_data_set_that_returns_fewer_samples_is_refused() -> None:
    """What counts once must be there: a __getitems__ that drops samples is told so."""

    class Dropping(Fetched):
        def __getitems__(self, ids: list[int]) -> list[str]:
            return super().__getitems__(ids)[1:]

    with pytest.raises(RecipeError, match="returned 1 samples for 2 ids: return one for each"):
        next(loader(Dropping(), (2, 1, 0, 1)).steps(Position(), 1))


class Collator:
    """A collate that is an object."""

    def __call__(self, samples: list[Any], layout: Layout | None = None) -> Any:
        return samples, layout


def with_another_layout(samples: list[Any], layout: str = "NCHW") -> Any:
    return samples, layout


def without(samples: list[Any]) -> Any:
    return samples


@pytest.mark.parametrize(
    ("collate", "takes"),
    [
        (Collator(), True),
        (functools.partial(Collator(), layout=None), True),
        (functools.partial(Collator(), layout=Layout(8, None)), False),
        (with_another_layout, False),
        (without, False),
        (list, False),
        (None, False),
    ],
)
def test_a_collate_that_wants_the_layout(collate: Any, takes: bool) -> None:
    """Told by a parameter `layout` that is None by default; one by another default is the recipe's own."""
    assert takes_layout(collate) is takes


@pytest.mark.parametrize(("collate", "layout"), [(Collator(), None), (with_another_layout, "NCHW")])
def test_a_parameter_layout_of_another_meaning_keeps_its_default(collate: Any, layout: str | None) -> None:
    """Without a batch plan nothing is passed that would change what a recipe's collate does."""
    (step,) = loader(range(4), (2, 1, 0, 1), collate=collate).steps(Position(), 1)
    ((_, seen),) = [microbatch.batch for microbatch in step.microbatches]
    assert seen == layout


class Refusing:
    """A data set of which the recipe cannot read one sample."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        if index == 5:
            raise RecipeError("image 5 is damaged: mend or remove it")
        return index


@pytest.mark.processes
@pytest.mark.parametrize("workers", [0, 1])
def test_a_refusal_of_the_recipe_is_its_own_sentence(workers: int) -> None:
    """Without the worker's traceback, in which torch puts it."""
    batches = loader(Refusing(), (2, 1, 0, 1), workers=workers)
    with pytest.raises(RecipeError) as raised:
        [read(step) for step in batches.steps(Position(0, 0, 1), 4)]
    assert str(raised.value) == "image 5 is damaged: mend or remove it"


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers import what they load")
def test_workers_need_not_import_the_data_set() -> None:
    """Under a start method that pickles (Python 3.14's default), a recipe file's classes still load."""
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("spawn", force=True)
    try:
        batches = loader(Noisy(), (3, 1, 0, 1), workers=1, collate=lambda rows: rows)
        assert len([read(step) for step in batches.steps(Position(), 4)]) == 4
    finally:
        multiprocessing.set_start_method(before, force=True)


def test_reading_does_not_touch_the_generator_of_dropout() -> None:
    """torch's default generator is the same before and after an epoch."""
    before = torch.random.get_rng_state()
    list(map(read, loader(range(10), (2, 1, 0, 1)).steps(Position(), 5)))
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


class Epochs(list[int]):
    """Samples that say which epoch they were last told of."""

    epoch = -1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __getitem__(self, index: Any) -> Any:
        return self.epoch


@pytest.mark.processes
@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_set_is_told_of_the_epoch(workers: int) -> None:
    """Before the first sample of each, in workers too, that live through several; and after a resume."""
    shape = (2, 1, 0, 1)
    steps = [read(step) for step in loader(Epochs(range(4)), shape, workers=workers).steps(Position(), 6)]
    assert [batch for *_, ((batch, _),) in steps] == [[epoch] * 2 for epoch in (0, 0, 1, 1, 2, 2)]
    rest = loader(Epochs(range(4)), shape, workers=workers).steps(steps[2][1], 1)
    assert [read(step)[2][0][0] for step in rest] == [[1, 1]]
