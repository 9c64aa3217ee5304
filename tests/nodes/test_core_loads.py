"""How busy each core is, from its ticks."""

import time

from torchdeck.nodes.activity import CoreLoads, core_loads


def test_each_core_counts_by_its_own_time() -> None:
    assert core_loads([(0, 0), (5, 10), (1, 4)], [(1, 4), (5, 14), (1, 4)]) == (25.0, 0.0, 0.0)


def test_a_clock_that_goes_back_is_no_load() -> None:
    assert core_loads([(5, 10)], [(4, 12)]) == (0.0,)


def test_nothing_is_known_where_no_time_has_passed() -> None:
    assert core_loads([(1, 2), (3, 4)], [(1, 2), (3, 4)]) == ()


def test_a_busy_core_is_seen() -> None:
    loads = CoreLoads()
    began = time.thread_time()
    while time.thread_time() - began < 0.3:
        pass
    seen = loads.look()
    assert max(seen) > 20
    assert all(0 <= load <= 100 for load in seen)
