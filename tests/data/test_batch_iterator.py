"""Batches of a sampler's indices, and positions between them."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.batch_iterator import DistributedBatchIterator
from torchdeck.data.order import SampleOrder, global_batches, steps_per_epoch
from torchdeck.data.sampler import DistributedSampler

sizes = st.integers(1, 150)
worlds = st.integers(1, 7)
batches = st.integers(1, 6)


def exact(size: int, world_size: int, rank: int, batch_size: int, seed: int = 0) -> DistributedBatchIterator:
    return DistributedBatchIterator(
        DistributedSampler(size, world_size, rank, seed=seed, exactly_once=True), batch_size
    )


@settings(deadline=None)
@given(sizes, worlds, batches, st.sampled_from(["padded", "drop_last", "exactly_once"]))
def test_batches_are_the_samplers_indices(size: int, world_size: int, batch_size: int, kind: str) -> None:
    """Put together they are what the sampler yields; none is too large, and every rank has as many."""
    options = {} if kind == "padded" else {kind: True}
    counts = set()
    for rank in range(world_size):
        sampler = DistributedSampler(size, world_size, rank, seed=3, **options)
        wanted = sampler.get_indices().tolist()
        found = [batch.tolist() for batch in DistributedBatchIterator(sampler, batch_size)]
        assert list(itertools.chain(*found)) == wanted
        assert all(len(batch) == batch_size for batch in found[:-1])
        assert all(len(batch) <= batch_size for batch in found)
        counts.add(len(found))
    assert len(counts) == 1


@settings(deadline=None)
@given(sizes, worlds, batches)
def test_a_step_takes_what_a_recipe_run_takes(size: int, world_size: int, batch_size: int) -> None:
    """Exactly once, all ranks' batches of a step are the samples of that global batch of `data.order`."""
    ranks = [exact(size, world_size, rank, batch_size, seed=5) for rank in range(world_size)]
    steps = list(zip(*ranks, strict=True))
    assert len(steps) == steps_per_epoch(size, batch_size * world_size) == ranks[0].num_batches
    for step, batch in zip(
        steps, global_batches(SampleOrder(size, 5), batch_size * world_size), strict=False
    ):
        assert sorted(itertools.chain(*(part.tolist() for part in step))) == sorted(batch.ids.tolist())


@settings(deadline=None)
@given(sizes, st.lists(st.tuples(worlds, batches, st.integers(0, 5)), min_size=1, max_size=10))
def test_stops_and_changes_use_every_sample_once(size: int, lives: list[tuple[int, int, int]]) -> None:
    """At any stops, world sizes and batch sizes: two whole epochs, each the data set exactly."""
    used: list[list[int]] = [[], []]
    state: dict[str, Any] | None = None
    for world_size, batch_size, steps in [*lives, (2, 3, 10_000)]:
        ranks = [exact(size, world_size, rank, batch_size, seed=1) for rank in range(world_size)]
        for iterator in ranks:
            if state is not None:
                iterator.load_state_dict(json.loads(json.dumps(state)))
        for _ in range(steps):
            if not ranks[0].has_next() and ranks[0].epoch == 1:
                break
            for iterator in ranks:
                if not iterator.has_next():
                    iterator.reset(1)
                used[iterator.epoch] += iterator.next().tolist()
        states = [iterator.state_dict() for iterator in ranks]
        assert states == states[:1] * world_size
        state = states[0]
    assert [sorted(epoch) for epoch in used] == [list(range(size))] * 2


def test_has_next_and_next_go_through_an_epoch() -> None:
    """7 over 2 ranks in batches of 2: rank 1 has 3 samples in two batches, and then it is said what to do."""
    iterator = DistributedBatchIterator(DistributedSampler(7, 2, 1, shuffle=False, exactly_once=True), 2)
    assert (iterator.num_batches, len(iterator), iterator.iteration) == (2, 2, 0)
    assert iterator.next().tolist() == [1, 3]
    assert (iterator.iteration, iterator.has_next()) == (1, True)
    assert next(iterator).tolist() == [5]
    assert not iterator.has_next()
    with pytest.raises(StopIteration, match=r"epoch 0 is over after 2 batches: reset\(1\) goes to the next"):
        iterator.next()
    iterator.reset()
    assert [batch.tolist() for batch in iterator] == [[1, 3], [5]]


def test_a_rank_without_samples_has_empty_batches() -> None:
    """3 samples over 4 ranks: the last rank has one batch like the others, and nothing in it."""
    assert [batch.tolist() for batch in exact(3, 4, 3, 2)] == [[]]


def test_reset_goes_to_an_epoch() -> None:
    """Another epoch has another order, from its beginning even after a state was loaded."""
    iterator = exact(50, 2, 0, 5)
    first = iterator.next().tolist()
    iterator.reset(1)
    second = iterator.next().tolist()
    assert first != second
    iterator.load_state_dict(iterator.state_dict())
    assert iterator.num_batches == 4
    iterator.reset(1)
    assert (iterator.num_batches, iterator.next().tolist()) == (5, second)
    with pytest.raises(ValueError, match="epoch is -1"):
        iterator.reset(-1)


def test_a_batch_size_below_one_is_refused() -> None:
    """No one can iterate in batches of nothing."""
    with pytest.raises(ValueError, match="batch_size is 0: expected a whole number from 1"):
        exact(5, 1, 0, 0)
