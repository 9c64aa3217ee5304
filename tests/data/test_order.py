"""The order of samples and positions in it."""

import hashlib
import itertools
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from torchdeck.data.order import (
    GlobalBatch,
    Position,
    PositionError,
    SampleOrder,
    global_batches,
    steps_per_epoch,
)
from torchdeck.data.step_order import SeededSteps

sizes = st.integers(1, 200)
seeds = st.integers(0, 2**64 - 1)
counts = st.integers(1, 8)


@settings(deadline=None)
@given(sizes, seeds, st.integers(0, 50))
def test_an_epoch_is_a_permutation(size: int, seed: int, epoch: int) -> None:
    """Every id from 0 to size − 1 stands once in an epoch, as int64, the same each time it is asked for."""
    order = SampleOrder(size, seed)
    ids = order.epoch(epoch)
    assert ids.dtype == np.int64
    assert sorted(ids.tolist()) == list(range(size))
    assert ids.tolist() == SampleOrder(size, seed).epoch(epoch).tolist()


def test_the_order_never_changes_between_versions() -> None:
    """These permutations are on people's disks as positions: they hold for every numpy version."""
    assert SampleOrder(10, 0).epoch(0).tolist() == [0, 2, 9, 1, 8, 5, 4, 3, 6, 7]
    digest = hashlib.sha256(SampleOrder(100_000, 7).epoch(3).astype("<i8").tobytes()).hexdigest()
    assert digest == "bed16978ae5ebca6f03bfa9e4a9258e89618fef68f605a64267cebabffd70156"


def test_seed_and_epoch_are_independent() -> None:
    """Seed 1 epoch 0 is not seed 0 epoch 1, and no two of many (seed, epoch) give the same order."""
    orders = {tuple(SampleOrder(50, seed).epoch(epoch)) for seed in range(12) for epoch in range(12)}
    assert len(orders) == 144


@settings(deadline=None)
@given(sizes, counts, counts, counts, st.data())
def test_a_global_batch_is_the_same_at_any_world_size(
    size: int, microbatch: int, accumulation: int, world_size: int, data: st.DataObject
) -> None:
    """However a global batch is cut over ranks and microbatches, its parts are its samples, in order."""
    batch_size = microbatch * accumulation * world_size
    order = SampleOrder(size, 3)
    skip = data.draw(st.integers(0, 2 * steps_per_epoch(size, batch_size)))
    batch = next(itertools.islice(global_batches(order, batch_size), skip, None))
    parts = [
        batch.microbatch(index, rank, world_size=world_size, accumulation=accumulation)
        for index in range(accumulation)
        for rank in range(world_size)
    ]
    assert np.concatenate(parts).tolist() == batch.ids.tolist()
    lengths = {len(part) for part in parts}
    assert lengths == {microbatch} if len(batch.ids) == batch_size else max(lengths) - min(lengths) <= 1
    assert max(lengths) <= microbatch


@settings(deadline=None)
@given(sizes, seeds, st.lists(st.tuples(st.integers(0, 5), counts, counts, counts), min_size=1, max_size=12))
def test_each_sample_counts_once_through_stops_and_changes(
    size: int, seed: int, lives: list[tuple[int, int, int, int]]
) -> None:
    """Through any stops and changes of world size and batch size, each epoch is each sample once."""
    order = SampleOrder(size, seed)
    position = Position()
    seen: list[list[int]] = [[]]
    steps = 0

    def take(batch: GlobalBatch, world_size: int, accumulation: int) -> Position:
        for rank, index in itertools.product(range(world_size), range(accumulation)):
            part = batch.microbatch(index, rank, world_size=world_size, accumulation=accumulation)
            seen[-1].extend(part.tolist())
        if batch.after.epoch > batch.before.epoch:
            seen.append([])
        # a stop: only what is in the checkpoint survives
        return Position.from_json(json.loads(json.dumps(batch.after.to_json())))

    for length, microbatch, accumulation, world_size in lives:
        batches = global_batches(order, microbatch * accumulation * world_size, position)
        for batch in itertools.islice(batches, length):
            assert batch.before == position
            position = take(batch, world_size, accumulation)
            steps += 1
    assert position.step == steps
    assert position.epoch == len(seen) - 1
    assert position.consumed == len(seen[-1])
    assert all(sorted(epoch) == list(range(size)) for epoch in seen[:-1])
    assert len(set(seen[-1])) == len(seen[-1])


def test_the_last_batch_of_an_epoch_is_what_is_left() -> None:
    """Ten samples by four: 4, 4, 2, then the next epoch begins."""
    batches = list(itertools.islice(global_batches(SampleOrder(10, 0), 4), 4))
    assert [len(batch.ids) for batch in batches] == [4, 4, 2, 4]
    assert [batch.after for batch in batches[1:]] == [Position(0, 8, 2), Position(1, 0, 3), Position(1, 4, 4)]


def test_a_rank_may_have_no_sample_in_a_partial_batch() -> None:
    """One sample left over for four ranks goes to one of them, and the others get none."""
    batch = list(itertools.islice(global_batches(SampleOrder(5, 0), 4), 2))[1]
    lengths = [len(batch.microbatch(0, rank, world_size=4, accumulation=1)) for rank in range(4)]
    assert sorted(lengths) == [0, 0, 0, 1]


def test_a_finished_epoch_as_start_goes_on_with_the_next() -> None:
    """A position whose epoch is used up is the beginning of the next one."""
    batch = next(global_batches(SampleOrder(6, 0), 4, Position(0, 6, 2)))
    assert batch.before == Position(1, 0, 2)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "an object"),
        ([1, 2], "an object"),
        ({"epoch": 0, "consumed": 0, "step": 0}, "version None"),
        ({"v": 2, "epoch": 0, "consumed": 0, "step": 0}, "version 2"),
        ({"v": 1, "epoch": 0, "consumed": 0}, "step of a position"),
        ({"v": 1, "epoch": -1, "consumed": 0, "step": 0}, "epoch of a position"),
        ({"v": 1, "epoch": 0, "consumed": 1.5, "step": 0}, "consumed of a position"),
        ({"v": 1, "epoch": True, "consumed": 0, "step": 0}, "epoch of a position"),
        ({"v": 1, "epoch": 0, "consumed": 0, "step": 0, "rank": 1}, "unknown fields: rank"),
    ],
)
def test_what_is_not_a_position_is_refused(value: Any, said: str) -> None:
    """A position from a file is checked field by field, and the refusal names the field."""
    with pytest.raises(PositionError, match=said):
        Position.from_json(value)


def test_a_position_of_a_larger_data_set_is_refused() -> None:
    """More samples consumed than there are means another data set; that is said at once."""
    with pytest.raises(PositionError, match="has 10"):
        global_batches(SampleOrder(10, 0), 4, Position(0, 11, 3))


@pytest.mark.parametrize(("size", "seed"), [(0, 0), (-1, 0), (1, -1), (1, 2**64)])
def test_size_and_seed_have_ranges(size: int, seed: int) -> None:
    """An empty data set and a seed that is no 64-bit word are refused."""
    with pytest.raises(ValueError, match=r"sample|seed"):
        SampleOrder(size, seed)


def test_ranges_of_batches_and_microbatches() -> None:
    """A global batch of nothing, a rank and a microbatch that do not exist are refused."""
    order = SampleOrder(4, 0)
    with pytest.raises(ValueError, match="global batch 0"):
        global_batches(order, 0)
    batch = next(global_batches(order, 4))
    for index, rank in [(0, 2), (0, -1), (1, 0)]:
        with pytest.raises(ValueError, match="out of range"):
            batch.microbatch(index, rank, world_size=2, accumulation=1)


def steps_for_epochs(size: int, batch: int, epochs: float) -> int:
    steps = SeededSteps(SampleOrder(size, 0), microbatch=batch, accumulation=1, world_size=1)
    return steps.total_steps(None, epochs, Position())


def test_a_fraction_of_an_epoch_is_the_one_that_was_written() -> None:
    """1.3 epochs of 10 are 13 steps of 1 and 7 of 2, though in binary 1.3 - 1 is more than 0.3."""
    assert [steps_for_epochs(10, each, 1.3) for each in (1, 2, 10)] == [13, 7, 2]
    assert steps_for_epochs(100, 1, 2.01) == 201
    assert steps_for_epochs(10, 3, 1e-7) == 1


@settings(deadline=None)
@given(sizes, counts, st.floats(0.01, 4))
@example(10, 1, 1.3)
def test_steps_for_epochs_covers_them(size: int, batch: int, epochs: float) -> None:
    """So many steps see at least `epochs` epochs, and one step fewer sees less."""
    steps = steps_for_epochs(size, batch, epochs)

    def seen(number: int) -> Fraction:
        if number == 0:
            return Fraction(0)
        last = next(itertools.islice(global_batches(SampleOrder(size, 0), batch), number - 1, None)).after
        return last.epoch + Fraction(last.consumed, size)

    wanted = Fraction(repr(epochs))
    assert seen(steps) >= wanted
    assert seen(steps - 1) < wanted
