"""Ranges of samples, and what moves when the world size changes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.data.redistribution import (
    DistributedRangeSplitter,
    Move,
    RankRange,
    redistribution_report,
    validate_distributed_setup,
)

totals = st.one_of(st.integers(1, 300), st.integers(1, 10**15))
worlds = st.integers(1, 40)


def test_23_samples_over_4_ranks() -> None:
    """By hand: 23 = 4 · 5 + 3, so the first three ranks have one more: 6, 6, 6, 5."""
    splitter = DistributedRangeSplitter(23, 4)
    assert splitter.get_all_ranges() == [(0, 6), (6, 12), (12, 18), (18, 23)]
    assert [part.size for part in splitter.get_all_ranges()] == [6, 6, 6, 5]
    assert [splitter.get_rank_for_sample(sample) for sample in (0, 5, 6, 17, 18, 22)] == [0, 0, 1, 2, 3, 3]


def test_more_ranks_than_samples_leave_empty_ranges() -> None:
    """Two samples over five ranks: one each for the first two, nothing for the others."""
    assert DistributedRangeSplitter(2, 5).get_all_ranges() == [(0, 1), (1, 2), (2, 2), (2, 2), (2, 2)]


@settings(deadline=None)
@given(totals, worlds, st.data())
def test_every_sample_is_in_one_range(total: int, world_size: int, data: st.DataObject) -> None:
    """Ranges follow each other without gaps, differ by at most one, and each sample's rank is its range's."""
    splitter = DistributedRangeSplitter(total, world_size)
    ranges = splitter.get_all_ranges()
    assert splitter.validate_ranges(ranges)
    sizes = [part.size for part in ranges]
    assert sum(sizes) == total
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1
    sample = data.draw(st.integers(0, total - 1))
    start, stop = splitter.get_rank_range(splitter.get_rank_for_sample(sample))
    assert start <= sample < stop


@settings(deadline=None)
@given(st.integers(1, 120), worlds, worlds)
def test_moves_are_what_changes_its_rank(total: int, old: int, new: int) -> None:
    """Followed sample by sample: the report moves those whose rank changes, from and to the right one."""
    before, after = DistributedRangeSplitter(total, old), DistributedRangeSplitter(total, new)
    report = redistribution_report(total, old, new)
    said = {
        sample: (part.from_rank, part.to_rank)
        for part in report.parts
        for sample in range(part.start, part.stop)
    }
    assert said == {
        sample: (before.get_rank_for_sample(sample), after.get_rank_for_sample(sample))
        for sample in range(total)
    }
    assert sum(part.samples for part in report.parts) == total
    assert report.moved_samples == sum(one != other for one, other in said.values())


def test_a_report_can_be_read() -> None:
    """23 samples from 4 to 3 ranks: what stays is not listed, what moves is, and the sums are said."""
    report = redistribution_report(23, 4, 3)
    assert report.moves == (Move(6, 8, 1, 0), Move(12, 16, 2, 1), Move(18, 23, 3, 2))
    assert report.text() == (
        "23 samples from 4 to 3 ranks: 11 move, 12 stay\n"
        "samples 6 to 7: rank 1 to rank 0\n"
        "samples 12 to 15: rank 2 to rank 1\n"
        "samples 18 to 22: rank 3 to rank 2"
    )


def test_a_report_of_a_huge_data_set_costs_nothing() -> None:
    """A trillion samples from 1,024 to 1,000 ranks make at most as many parts as there are ranks."""
    report = redistribution_report(10**12, 1024, 1000)
    assert len(report.parts) <= 2024
    assert sum(part.samples for part in report.parts) == 10**12


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ([(0, 6), (6, 12), (12, 23)], "3 ranges for 4 ranks: expected one per rank"),
        ([(0, 6), (7, 12), (12, 18), (18, 23)], "samples 6 to 6 are in no range: rank 1 must start at 6"),
        ([(0, 6), (4, 12), (12, 18), (18, 23)], "samples 4 to 5 are in two ranges: rank 1 must start at 6"),
        ([(0, 6), (6, 12), (12, 18), (18, 22)], "the ranges end at 22, but there are 23 samples"),
        ([(0, 6), (6, 5), (5, 18), (18, 23)], "the range of rank 1 ends at 5, before its start 6"),
    ],
)
def test_wrong_ranges_are_named(ranges: list[tuple[int, int]], message: str) -> None:
    """What is wrong with ranges is said, with what would be right; other ranges that are right pass."""
    splitter = DistributedRangeSplitter(23, 4)
    assert splitter.validate_ranges([(0, 1), (1, 1), (1, 22), (22, 23)])
    assert splitter.validate_ranges()
    with pytest.raises(ValueError, match=message):
        splitter.validate_ranges(ranges)


def test_bad_numbers_are_refused_with_the_rule() -> None:
    """No samples, no ranks, a rank or sample that is not there, and what is no whole number."""
    assert validate_distributed_setup(23, 4)
    for total, world_size, message in (
        (0, 4, "total_samples is 0: expected a whole number from 1"),
        (-3, 4, "total_samples is -3: expected a whole number from 1"),
        (23, 0, "world_size is 0: expected a whole number from 1"),
        (23.0, 4, "total_samples is 23.0: expected a whole number from 1"),
        (23, True, "world_size is True: expected a whole number from 1"),
    ):
        with pytest.raises(ValueError, match=message):
            validate_distributed_setup(total, world_size)  # type: ignore[arg-type]  # wrong on purpose
        with pytest.raises(ValueError, match=message):
            DistributedRangeSplitter(total, world_size)  # type: ignore[arg-type]  # wrong on purpose
    splitter = DistributedRangeSplitter(23, 4)
    for rank in (-1, 4):
        with pytest.raises(ValueError, match=rf"rank is {rank}: .* from 0 to 3 \(world_size - 1\)"):
            splitter.get_rank_range(rank)
    for sample in (-1, 23):
        with pytest.raises(ValueError, match=rf"sample_id is {sample}: .* 0 to 22 \(total_samples - 1\)"):
            splitter.get_rank_for_sample(sample)


def test_a_range_is_a_pair() -> None:
    """A range unpacks and compares as (start, stop)."""
    start, stop = DistributedRangeSplitter(10, 2).get_rank_range(1)
    assert RankRange(start, stop) == (5, 10)
