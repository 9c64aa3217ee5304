"""Waiting times from arrivals: simulated gangs whose slow rank and its cost are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.agent.doctor.stragglers import slowest
from torchdeck.agent.doctor.waiting_times import FEWEST, group_waits
from torchdeck.contract.doctor.arrivals import GroupArrivals, RankArrivals

BEGIN = 1_795_000_000_000_000
STEP = 100_000
"""Microseconds of a step without a straggler."""


def gang(
    world: int,
    work: Callable[[int, int], int],
    steps: int = 60,
    buckets: int = 1,
    clocks: Sequence[int] = (),
    alike: bool = False,
) -> dict[int, RankArrivals]:
    """Ranks that meet in `buckets` collectives per step, and wait for the last one only, as DDP does."""
    now = 0
    times: dict[int, list[int]] = {rank: [] for rank in range(world)}
    for step in range(steps):
        ends = []
        for rank in range(world):
            lasts = work(rank, step)
            times[rank] += [now + lasts * (bucket + 1) // buckets for bucket in range(buckets)]
            ends.append(now + lasts)
        now = max(ends) + 500
    ahead = [*clocks, *([0] * world)]
    numbers = tuple(range(1, steps * buckets + 1))
    kinds = tuple(0 if alike else number % buckets for number in numbers)
    return {
        rank: RankArrivals(BEGIN + ahead[rank], (GroupArrivals("0", numbers, tuple(own), kinds),))
        for rank, own in times.items()
    }


@given(
    world=st.integers(2, 12),
    slow=st.integers(0, 11),
    extra=st.floats(0.1, 3.0),
    buckets=st.integers(1, 6),
    alike=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_the_slow_rank_and_its_cost_are_found(
    world: int, slow: int, extra: float, buckets: int, alike: bool, seed: int
) -> None:
    """Whatever the number of ranks and of collectives per step, alike or not, with 2 % of noise."""
    slow %= world
    noise = np.random.default_rng(seed)

    def work(rank: int, _step: int) -> int:
        return round(STEP * (1 + (extra if rank == slow else 0)) * noise.uniform(0.98, 1.02))

    found = slowest(group_waits(gang(world, work, buckets=buckets, alike=alike)))
    assert found is not None
    assert found.ranks == (slow,)
    assert found.share == pytest.approx(extra / (1 + extra), abs=0.06)


@given(world=st.integers(2, 12), jitter=st.floats(0.0, 0.3), seed=st.integers(0, 10**6))
def test_equal_ranks_with_jitter_have_no_straggler(world: int, jitter: float, seed: int) -> None:
    """Each is sometimes the last: no one is to blame."""
    noise = np.random.default_rng(seed)
    ranks = gang(world, lambda *_: round(STEP * noise.uniform(1 - jitter, 1 + jitter)), steps=200)
    assert slowest(group_waits(ranks)) is None


def test_a_save_of_one_rank_is_no_straggler() -> None:
    """Three steps of a hundred take ten times as long on rank 0."""
    ranks = gang(4, lambda rank, step: STEP * (10 if rank == 0 and step in (40, 41, 42) else 1), steps=100)
    assert slowest(group_waits(ranks)) is None


@given(ahead=st.integers(-4000, 4000))
def test_clocks_that_differ_a_little_name_no_one(ahead: int) -> None:
    """By less than the error that is known of them."""
    ranks = gang(4, lambda *_: STEP, clocks=(0, 0, ahead, ahead))
    assert slowest(group_waits(ranks, 4000)) is None


def test_a_whole_slow_node_is_named() -> None:
    """Half of the ranks are slow."""
    found = slowest(group_waits(gang(8, lambda rank, _: STEP * (2 if rank >= 4 else 1))))
    assert found is not None
    assert found.ranks == (4, 5, 6, 7)
    assert found.share == pytest.approx(0.5, abs=0.03)


def test_a_rank_that_is_late_because_it_waited_elsewhere_is_not_blamed() -> None:
    """Rank 3 makes rank 2 wait in their group, and so ranks 0 and 1 in the group of all."""
    times: dict[int, dict[str, list[int]]] = {rank: {"pair": [], "all": []} for rank in range(4)}
    now = 0
    for _ in range(30):
        late = now + 2 * STEP
        for rank in range(4):
            times[rank]["pair"].append(late if rank == 3 else now + STEP)
        for rank in range(4):
            times[rank]["all"].append((late if rank >= 2 else now + STEP) + 1000)
        now = late + 2000
    numbers = tuple(range(1, 31))
    ranks = {
        rank: RankArrivals(
            BEGIN,
            (
                GroupArrivals(f"pair{rank // 2}", numbers, tuple(own["pair"])),
                GroupArrivals("all", numbers, tuple(own["all"])),
            ),
        )
        for rank, own in times.items()
    }
    found = slowest(group_waits(ranks))
    assert found is not None
    assert found.ranks == (3,)


def test_measured_times_count_if_the_device_has_them() -> None:
    """Programs call NCCL's collectives ahead of the GPU: all at once, while one GPU comes late."""
    numbers = tuple(range(1, 41))
    ranks = {
        rank: RankArrivals(
            BEGIN,
            (
                GroupArrivals(
                    "0",
                    numbers,
                    tuple(number * STEP for number in numbers),
                    (),
                    tuple(2_000 if rank == 1 else 30_000 for _ in numbers),
                ),
            ),
        )
        for rank in range(3)
    }
    found = slowest(group_waits(ranks))
    assert found is not None
    assert (found.ranks, found.group) == ((1,), "0")
    assert found.share == pytest.approx(0.28, abs=0.03)


def test_too_few_collectives_say_nothing() -> None:
    assert group_waits(gang(2, lambda *_: STEP, steps=FEWEST - 1)) == []
    assert group_waits(gang(1, lambda *_: STEP)) == []
    assert group_waits({}) == []
