"""The distributed sampler, compared with torch's, and the one that uses every sample exactly once."""

import itertools
import json
from typing import Any

import pytest
import torch.utils.data
from hypothesis import example, given, settings
from hypothesis import strategies as st

from torchdeck.data.order import PositionError, SampleOrder
from torchdeck.data.sampler import DistributedSampler

sizes = st.integers(1, 200)
worlds = st.integers(1, 12)


class Numbers(torch.utils.data.Dataset[int]):
    """The ids themselves."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> int:
        return index


def exact(size: int, world_size: int, rank: int, **more: Any) -> DistributedSampler:
    return DistributedSampler(size, world_size, rank, exactly_once=True, **more)


@settings(deadline=None)
@given(sizes, worlds, st.booleans(), st.integers(0, 2**32), st.booleans(), st.integers(0, 9))
@example(10, 4, True, 0, False, 0)
@example(2, 9, True, 1, False, 3)
@example(3, 4, True, 1, True, 0)
def test_indices_equal_torchs(
    size: int, world_size: int, shuffle: bool, seed: int, drop_last: bool, epoch: int
) -> None:
    """For the same arguments every rank gets the indices that torch's sampler gives it, in the same order."""
    for rank in range(world_size):
        theirs: torch.utils.data.DistributedSampler[int] = torch.utils.data.DistributedSampler(
            Numbers(size),
            num_replicas=world_size,
            rank=rank,
            shuffle=shuffle,
            seed=seed,
            drop_last=drop_last,
        )
        ours = DistributedSampler(
            Numbers(size),
            num_replicas=world_size,
            rank=rank,
            shuffle=shuffle,
            seed=seed,
            drop_last=drop_last,
        )
        theirs.set_epoch(epoch)
        ours.set_epoch(epoch)
        assert ours.get_indices().tolist() == list(theirs)
        assert list(ours) == list(theirs)
        assert len(ours) == ours.local_size == len(theirs)
        for name in ("dataset", "num_replicas", "rank", "epoch", "drop_last", "shuffle", "seed"):
            assert getattr(ours, name) == getattr(theirs, name) or name == "dataset"
        assert (ours.num_samples, ours.total_size) == (theirs.num_samples, theirs.total_size)
        assert ours.dataset_size == size


def test_ten_over_four_by_hand() -> None:
    """Unshuffled, 10 over 4: padded from the front to 12, or cut to 8, or each once with sizes 3, 3, 2, 2."""
    padded, cut, once = (
        [DistributedSampler(10, 4, rank, shuffle=False, **kind).get_indices().tolist() for rank in range(4)]
        for kind in ({}, {"drop_last": True}, {"exactly_once": True})
    )
    assert padded == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]
    assert cut == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert once == [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]


@settings(deadline=None)
@given(sizes, worlds, st.booleans(), st.integers(0, 2**64 - 1), st.integers(0, 9))
def test_exactly_once_is_the_order_dealt_out(
    size: int, world_size: int, shuffle: bool, seed: int, epoch: int
) -> None:
    """All ranks together have every sample once, taken in turn from SampleOrder's permutation."""
    ranks = [exact(size, world_size, rank, shuffle=shuffle, seed=seed) for rank in range(world_size)]
    for sampler in ranks:
        sampler.set_epoch(epoch)
    assert sum(sampler.local_size for sampler in ranks) == size == ranks[0].total_size
    turns = itertools.zip_longest(*ranks)
    order = [index for turn in turns for index in turn if index is not None]
    assert order == (SampleOrder(size, seed).epoch(epoch).tolist() if shuffle else list(range(size)))


@settings(deadline=None)
@given(sizes, st.integers(0, 99), st.lists(st.tuples(worlds, st.integers(0, 40)), max_size=8), worlds)
def test_stops_and_changes_of_world_size_use_every_sample_once(
    size: int, seed: int, lives: list[tuple[int, int]], last: int
) -> None:
    """Stopped anywhere, resumed at any world size, again and again: the epoch is the data set, each once."""
    used: list[int] = []
    state: dict[str, Any] | None = None
    for world_size, steps in [*lives, (last, size)]:
        ranks = [exact(size, world_size, rank, seed=seed) for rank in range(world_size)]
        for sampler in ranks:
            sampler.set_epoch(2)
            if state is not None:
                sampler.load_state_dict(json.loads(json.dumps(state)))
        for sampler in ranks:
            used += itertools.islice(sampler, steps)
        states = [sampler.state_dict() for sampler in ranks]
        assert states == states[:1] * world_size
        state = states[0]
    assert sorted(used) == list(range(size))


@pytest.mark.parametrize("kind", [{}, {"drop_last": True}, {"exactly_once": True}], ids=str)
def test_a_state_resumes_where_it_was(kind: dict[str, bool]) -> None:
    """What is yielded before the state and after it is what a whole epoch yields; the next epoch is whole."""
    whole = DistributedSampler(23, 4, 1, seed=5, **kind)
    whole.set_epoch(3)
    first = DistributedSampler(23, 4, 1, seed=5, **kind)
    first.set_epoch(3)
    before = list(itertools.islice(first, 2))
    second = DistributedSampler(23, 4, 1, seed=5, **kind)
    second.load_state_dict(first.state_dict())
    second.set_epoch(3)  # as training loops do after a resume: the position stays
    assert len(second) == len(whole) - 2
    assert before + list(second) == list(whole)
    second.set_epoch(4)
    whole.set_epoch(4)
    assert list(second) == list(whole)


def test_a_loader_that_asks_ahead_saves_what_was_used() -> None:
    """With prefetching the sampler is ahead; the state of what was really used is had by saying how much."""
    sampler = exact(100, 2, 0)
    asked = list(itertools.islice(sampler, 20))
    resumed = exact(100, 2, 0)
    resumed.load_state_dict(sampler.state_dict(yielded=8))
    assert next(iter(resumed)) == asked[8]
    assert sampler.state_dict()["position"]["consumed"] == 40
    with pytest.raises(ValueError, match="yielded is 51: expected a whole number from 0 to 50"):
        sampler.state_dict(yielded=51)


def test_a_finished_epoch_is_over() -> None:
    """The state after the last sample leaves nothing of the epoch; the next one is whole."""
    sampler = exact(10, 3, 2)
    list(sampler)
    resumed = exact(10, 3, 2)
    resumed.load_state_dict(sampler.state_dict())
    assert (list(resumed), len(resumed)) == ([], 3)
    resumed.set_epoch(1)
    assert len(list(resumed)) == 3


def test_a_state_that_does_not_fit_is_refused() -> None:
    """Another data set, seed or kind, a padded order at another world size, a newer version, and no state."""
    state = exact(23, 4, 0, seed=1).state_dict()
    for other, message in (
        (exact(24, 4, 0, seed=1), "saved with total_samples 23, this sampler has 24"),
        (exact(23, 4, 0, seed=2), "saved with seed 1, this sampler has 2"),
        (exact(23, 4, 0, seed=1, shuffle=False), "saved with shuffle True, this sampler has False"),
        (DistributedSampler(23, 4, 0, seed=1), "saved with kind 'exactly_once', this sampler has 'padded'"),
    ):
        with pytest.raises(PositionError, match=message):
            other.load_state_dict(state)
    padded = DistributedSampler(23, 4, 0).state_dict()
    with pytest.raises(PositionError, match="world_size 4, this sampler has 3: only an exactly_once"):
        DistributedSampler(23, 3, 0).load_state_dict(padded)
    sampler = exact(23, 4, 0, seed=1)
    for wrong, message in (
        ({**state, "v": 2}, "version 2; this Torchdeck reads version 1"),
        ({**state, "extra": 1}, "unknown or missing fields: extra"),
        ({**state, "seed": "1"}, "seed of a sampler state must be a whole number"),
        ({**state, "shuffle": 1}, "has shuffle 1"),
        ({**state, "position": {"v": 1, "epoch": 0, "consumed": 24, "step": 0}}, "24 samples .* of 23"),
        ({**state, "position": None}, "a position is an object"),
        ([], "the state of a sampler is an object"),
    ):
        with pytest.raises(PositionError, match=message):
            sampler.load_state_dict(wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_bad_arguments_are_refused_with_the_rule() -> None:
    """No samples, no ranks, a rank too many, a negative epoch, a seed out of range, contradicting modes."""
    for arguments, message in (
        ((0, 4, 0), "the size of dataset is 0"),
        ((23, 0, 0), "num_replicas is 0"),
        ((23, 4, 4), r"rank is 4: expected a whole number from 0 to 3 \(num_replicas - 1\)"),
        ((23, 4, -1), "rank is -1"),
        ((23, 4, 0, True, 2**64), "seed is"),
    ):
        with pytest.raises(ValueError, match=message):
            DistributedSampler(*arguments)
    with pytest.raises(ValueError, match="drop_last leaves samples out, exactly_once does not"):
        exact(23, 4, 0, drop_last=True)
    with pytest.raises(ValueError, match="epoch is -1"):
        exact(23, 4, 0).set_epoch(-1)


def test_torchs_loader_takes_it() -> None:
    """As the sampler of a torch DataLoader it decides what is loaded, and the loader knows how much."""
    sampler = exact(11, 2, 1, seed=3)
    loader: torch.utils.data.DataLoader[Any] = torch.utils.data.DataLoader(
        Numbers(11), batch_size=2, sampler=sampler
    )
    assert len(loader) == 3
    assert [index for batch in loader for index in batch.tolist()] == list(sampler)
