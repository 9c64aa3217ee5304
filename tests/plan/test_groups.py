"""Groups of hybrid sharding on nodes."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.values.machines import node
from torchdeck.plan.check import PlanError
from torchdeck.plan.groups import divisors, shard_groups
from torchdeck.plan.placement import NodeShare


def shares(*counts: int) -> list[NodeShare]:
    return [NodeShare(node(f"n{rank}"), rank, count, ()) for rank, count in enumerate(counts)]


COUNTS = st.lists(st.integers(1, 12), min_size=1, max_size=8)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[int], int]:
    """Ranks of each node, and a size of groups that divides them all."""
    counts = draw(COUNTS)
    return counts, draw(st.sampled_from(divisors(sum(counts))))


@settings(deadline=None)
@given(layouts())
def test_groups_partition_the_ranks(layout: tuple[list[int], int]) -> None:
    """Each rank is in one group that shards."""
    counts, shard = layout
    groups = shard_groups(shares(*counts), shard)
    assert groups.replicas * groups.shard == sum(counts)


@settings(deadline=None)
@given(layouts())
def test_a_warning_comes_where_a_group_crosses_and_nowhere_else(layout: tuple[list[int], int]) -> None:
    """Crossing groups are counted against a node's ranks written out one by one."""
    counts, shard = layout
    home = [index for index, count in enumerate(counts) for _ in range(count)]
    groups = shard_groups(shares(*counts), shard)
    crossing = [first for first in range(0, len(home), shard) if home[first] != home[first + shard - 1]]
    assert groups.crossing == len(crossing)
    assert bool(groups.warnings) == bool(crossing)
    if crossing:
        assert f"{len(crossing)} of {len(home) // shard} groups" in groups.warnings[0]
        assert f"ranks {crossing[0]} to {crossing[0] + shard - 1}" in groups.warnings[0]


@settings(deadline=None)
@given(COUNTS)
def test_by_itself_a_group_stays_inside_a_node(counts: list[int]) -> None:
    """A node's ranks where all have as many, else the most that fits every node."""
    groups = shard_groups(shares(*counts), None)
    assert groups.shard == math.gcd(*counts)
    assert groups.crossing == 0
    if len(set(counts)) == 1:
        assert groups.shard == counts[0]


def test_groups_that_do_not_come_out_even_are_refused() -> None:
    """The sizes that would do are named."""
    with pytest.raises(PlanError) as caught:
        shard_groups(shares(8, 4), 5)
    (found,) = caught.value.problems
    assert found.path == "distributed.hsdp.shard"
    assert found.wrong == "12 ranks cannot form groups of 5"
    assert found.right == "one of 1, 2, 3, 4, 6, 12"


def test_the_warning_says_what_would_stay_inside() -> None:
    """Nodes and ranks of the first group, and the size to choose."""
    (warning,) = shard_groups(shares(3, 1), 2).warnings
    assert "1 of 2 groups" in warning
    assert "ranks 2 to 3, n0 to n1" in warning
    assert "distributed.hsdp.shard = 1 " in warning


def test_divisors() -> None:
    """All of them, in order."""
    assert divisors(36) == [1, 2, 3, 4, 6, 9, 12, 18, 36]
    assert divisors(7) == [1, 7]
