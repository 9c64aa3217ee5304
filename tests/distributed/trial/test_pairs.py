"""Which pairs are measured, and who is slow by the results. No process: values alone."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.distributed.trial.pairs import (
    MOST_MATCHINGS,
    Matching,
    Pair,
    Speed,
    better,
    groups,
    judge,
    matchings,
    schedule,
    second_round,
    slowest_members,
)

FAST = Speed(1e-4, 1e9)
NODES = st.integers(3, 16)
SLOWER = st.floats(0.01, 0.35)
LATER = st.floats(8.0, 1000.0)


def everyone_is_in_one_pair(found: list[Matching]) -> bool:
    return all(len({each for pair in matching for each in pair}) == 2 * len(matching) for matching in found)


def measured(found: list[Matching], seed: int, slow: dict[Pair, Speed]) -> dict[Pair, Speed]:
    """Speeds that differ by up to a fifth, but for the slow ones."""
    noise = random.Random(seed)  # noqa: S311 - no secret
    return {
        pair: Speed(base.latency * noise.uniform(0.85, 1.2), base.bandwidth * noise.uniform(0.85, 1.2))
        for matching in found
        for pair in matching
        for base in [slow.get(pair, FAST)]
    }


@given(st.integers(0, 80))
def test_every_pair_once(count: int) -> None:
    """Up to 32 members meet all others; more of them meet as many others, or one less."""
    found = matchings(count)
    pairs = [pair for matching in found for pair in matching]
    assert everyone_is_in_one_pair(found)
    assert len(set(pairs)) == len(pairs)
    if count <= MOST_MATCHINGS + 1:
        assert len(pairs) == count * (count - 1) // 2
    else:
        met = [sum(each in pair for pair in pairs) for each in range(count)]
        assert set(met) <= {MOST_MATCHINGS, MOST_MATCHINGS - 1}


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.booleans())
def test_pairs_of_ranks(counts: list[int], gpus: bool) -> None:
    """Without GPUs the first ranks of nodes; with GPUs those of a node, and equal local ranks of two."""
    first = [sum(counts[:at]) for at in range(len(counts))]
    nodes = [list(range(begin, begin + count)) for begin, count in zip(first, counts, strict=True)]
    found = schedule(nodes, gpus=gpus)
    pairs = {pair for matching in found for pair in matching}
    assert everyone_is_in_one_pair(found)
    wanted = {
        (a[lane], b[lane])
        for at, a in enumerate(nodes)
        for b in nodes[at + 1 :]
        for lane in range(min(len(a), len(b)) if gpus else 1)
    }
    inside = {(a, b) for own in nodes for a in own for b in own if a < b}
    assert pairs == wanted | (inside if gpus else set())
    comparable = groups(nodes, gpus=gpus)
    assert all(any(set(pair) <= set(group) for group in comparable) for pair in pairs)


@given(NODES, st.integers(0, 2**32), st.data())
def test_a_slow_node_is_named(count: int, seed: int, data: st.DataObject) -> None:
    """It alone, by its bandwidth or its latency, after both rounds."""
    bad = data.draw(st.integers(0, count - 1))
    slow = data.draw(st.one_of(SLOWER.map(bandwidth_of), LATER.map(latency_of)))
    first = measured(matchings(count), seed, {pair: slow for pair in all_pairs(count) if bad in pair})
    again = second_round([range(count)], first)
    assert everyone_is_in_one_pair(again)
    assert any(bad in pair for matching in again for pair in matching)
    second = measured(again, seed + 1, {pair: slow for pair in all_pairs(count) if bad in pair})
    verdict = judge(range(count), better(first, second))
    assert verdict is not None
    assert (verdict.slow, verdict.links) == ((bad,), ())
    assert verdict.usual.bandwidth > 0.8 * FAST.bandwidth


@given(NODES, st.integers(0, 2**32), st.data())
def test_a_slow_link_is_named(count: int, seed: int, data: st.DataObject) -> None:
    """No node is; in the second round both its ends are paired with others."""
    bad = data.draw(st.sampled_from(all_pairs(count)))
    slow = data.draw(st.one_of(SLOWER.map(bandwidth_of), LATER.map(latency_of)))
    first = measured(matchings(count), seed, {bad: slow})
    again = second_round([range(count)], first)
    pairs = {pair for matching in again for pair in matching}
    assert bad in pairs
    for side in bad:
        assert any(side in pair and pair != bad for pair in pairs)
    verdict = judge(range(count), better(first, measured(again, seed + 1, {bad: slow})))
    assert verdict is not None
    assert (verdict.slow, verdict.links) == ((), (bad,))


@given(NODES, st.integers(0, 2**32), st.data())
def test_a_disturbance_is_no_fault(count: int, seed: int, data: st.DataObject) -> None:
    """What was slow in the first round, and not in the second, is not named."""
    bad = data.draw(st.sampled_from(all_pairs(count)))
    first = measured(matchings(count), seed, {bad: bandwidth_of(0.1)})
    verdict = judge(range(count), better(first, measured(second_round([range(count)], first), seed + 1, {})))
    assert verdict is not None
    assert (verdict.slow, verdict.links) == ((), ())


@given(st.integers(6, 16), st.integers(0, 2**32), st.data())
def test_two_slow_nodes_are_named(count: int, seed: int, data: st.DataObject) -> None:
    bad = data.draw(st.sampled_from(all_pairs(count)))
    slow = {pair: bandwidth_of(0.1) for pair in all_pairs(count) if set(bad) & set(pair)}
    verdict = judge(range(count), measured(matchings(count), seed, slow))
    assert verdict is not None
    assert sorted(verdict.slow) == sorted(bad)
    assert verdict.links == ()


@pytest.mark.parametrize("count", [0, 1, 2])
def test_one_pair_cannot_be_compared(count: int) -> None:
    """Which of two nodes is slow, no measurement of theirs tells."""
    speeds = measured(matchings(count), 0, {})
    assert judge(range(count), speeds) is None
    assert second_round([range(count)], speeds) == []


def test_a_group_is_judged_by_its_own_pairs() -> None:
    """GPUs of one node are faster with each other than nodes are: neither makes the other slow."""
    inside = {pair: Speed(1e-5, 1e11) for pair in [(0, 1), (0, 2), (1, 2)]}
    between = {(0, 3): FAST, (0, 6): FAST, (3, 6): FAST}
    speeds = {**inside, **between}
    for group in ((0, 1, 2), (0, 3, 6)):
        verdict = judge(group, speeds)
        assert verdict is not None
        assert (verdict.slow, verdict.links) == ((), ())
    assert second_round([(0, 1, 2), (0, 3, 6)], speeds) == []


def test_slow_members_by_their_own_speed() -> None:
    assert slowest_members({0: 1.0}) == ()
    assert slowest_members({0: 1.0, 1: 0.5}) == (1,)
    assert slowest_members({0: 1.0, 1: 0.9, 2: 0.3, 3: 1.1, 4: 0.1}) == (4, 2)


def bandwidth_of(share: float) -> Speed:
    return Speed(FAST.latency, FAST.bandwidth * share)


def latency_of(times: float) -> Speed:
    return Speed(FAST.latency * times, FAST.bandwidth)


def all_pairs(count: int) -> list[Pair]:
    return [(a, b) for a in range(count) for b in range(a + 1, count)]
