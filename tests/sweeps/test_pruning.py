"""Which trials are pruned, by histories made by hand and by properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.sweeps.goal import Goal
from torchdeck.sweeps.pruning import (
    MOST_POINTS,
    STARTUP,
    Pruner,
    Pruning,
    first_step,
    last_rung,
    rungs,
    thinned,
    why_pruned,
)

LOW, HIGH = Goal("loss"), Goal("accuracy", is_high=True)
ASHA, MEDIAN = Pruning(Pruner.ASHA, after=3), Pruning(Pruner.MEDIAN, after=3)

History = list[tuple[int, float]]
histories = st.lists(
    st.lists(st.floats(allow_nan=True), min_size=1, max_size=20).map(lambda each: list(enumerate(each, 1))),
    min_size=1,
    max_size=8,
)


def flat(value: float, steps: int = 9) -> History:
    return [(step, value) for step in range(1, steps + 1)]


def test_rungs_grow_by_the_factor() -> None:
    assert rungs(3, 3, 100) == [3, 9, 27, 81]
    assert rungs(5, 2, 4) == []


def test_the_first_step_is_a_part_of_the_first_complete_trial() -> None:
    assert first_step(ASHA, []) == 3
    assert first_step(Pruning(Pruner.ASHA), []) is None
    assert first_step(Pruning(Pruner.ASHA), [flat(1, 90), flat(1, 30)]) == 10
    assert first_step(Pruning(Pruner.ASHA, factor=2), [flat(1, 3)]) == 1


def test_asha_keeps_the_best_third_at_a_rung() -> None:
    others = [flat(value) for value in (1, 2, 3, 4, 5)]
    assert not why_pruned(ASHA, LOW, flat(0.5, 3), others, [])
    assert not why_pruned(ASHA, LOW, flat(1.5, 3), others, [])
    why = why_pruned(ASHA, LOW, flat(2.5, 3), others, [])
    assert why == "at step 3 it is number 3 of 6, and 2 continue"


def test_asha_prunes_nothing_before_the_first_rung() -> None:
    assert not why_pruned(ASHA, LOW, flat(9, 2), [flat(1), flat(2)], [])
    assert not why_pruned(Pruning(Pruner.ASHA), LOW, flat(9), [flat(1), flat(2)], [])


def test_asha_ranks_a_trial_at_each_rung_by_its_value_there() -> None:
    """A trial with a good start that gets worse is pruned at the second rung."""
    own = [*flat(0.1, 8), (9, 5.0)]
    assert why_pruned(ASHA, LOW, own, [flat(1), flat(2)], []).startswith("at step 9")


def test_asha_judges_a_trial_once_at_each_rung() -> None:
    """A trial that was good enough at a rung is not pruned because better ones reach it later."""
    better = [flat(value) for value in (1, 2, 3)]
    assert why_pruned(ASHA, LOW, flat(9, 8), better, [])
    assert last_rung(ASHA, flat(9, 8), []) == 3
    assert not why_pruned(ASHA, LOW, flat(9, 8), better, [], judged=3)
    assert why_pruned(ASHA, LOW, flat(9, 9), better, [], judged=3).startswith("at step 9")


def test_asha_judges_only_the_last_rung_reached() -> None:
    own = [*flat(9, 8), (9, 0.5)]
    assert not why_pruned(ASHA, LOW, own, [flat(1), flat(2)], [])
    assert last_rung(ASHA, own, []) == 9
    assert last_rung(ASHA, flat(9, 2), []) == last_rung(MEDIAN, own, []) == 0


@pytest.mark.parametrize("after", [7, 1000, None])
def test_a_long_history_is_compared_at_the_same_steps_once_it_is_thinned(after: int | None) -> None:
    pruning = Pruning(Pruner.ASHA, after)
    own = [(step, 1 / step) for step in range(1, 10_001)]
    other = thinned(own, pruning, [own])
    assert len(other) < MOST_POINTS + 10
    reached = rungs(first_step(pruning, [own]) or 0, 3, 10_000)
    assert reached
    for rung in reached:
        assert not why_pruned(pruning, LOW, own[:rung], [other], [other])


def test_median_needs_some_complete_trials() -> None:
    complete = [flat(value) for value in (1, 2, 3, 4)]
    assert not why_pruned(MEDIAN, LOW, flat(9, 3), complete[: STARTUP - 1], complete[: STARTUP - 1])
    assert why_pruned(MEDIAN, LOW, flat(9, 3), complete, complete)
    assert not why_pruned(MEDIAN, LOW, flat(2.5, 3), complete, complete)


def test_median_judges_a_trial_by_its_best_value_so_far() -> None:
    complete = [flat(value) for value in (1, 2, 3, 4)]
    assert not why_pruned(MEDIAN, LOW, [(1, 0.5), (2, 9), (3, 9)], complete, complete)


def test_high_values_can_be_the_good_ones() -> None:
    others = [flat(value) for value in (0.7, 0.8)]
    assert not why_pruned(ASHA, HIGH, flat(0.9, 3), others, [])
    assert why_pruned(ASHA, HIGH, flat(0.1, 3), others, [])


def test_nan_is_the_worst() -> None:
    assert why_pruned(ASHA, LOW, flat(math.nan, 3), [flat(1e9)], [])
    assert not why_pruned(ASHA, LOW, flat(1e9, 3), [flat(math.nan)], [])


@given(histories, st.sampled_from([ASHA, MEDIAN, Pruning(Pruner.ASHA, after=1, factor=2)]), st.booleans())
def test_a_trial_that_is_nowhere_worse_is_never_pruned(
    found: list[History], pruning: Pruning, is_high: bool
) -> None:
    goal = Goal("m", is_high)
    best = -math.inf if not is_high else math.inf
    own = [(step, best) for step in range(1, 21)]
    assert not why_pruned(pruning, goal, own, found, found)


@given(histories)
def test_equal_trials_are_not_pruned(found: list[History]) -> None:
    own = found[0]
    for pruning in (ASHA, MEDIAN):
        assert not why_pruned(pruning, LOW, own, [own] * 5, [own] * 5)


@given(histories, st.randoms())
def test_the_order_of_the_others_does_not_matter(found: list[History], source: object) -> None:
    own, *others = found
    turned = list(reversed(others))
    assert why_pruned(ASHA, LOW, own, others, []) == why_pruned(ASHA, LOW, own, turned, [])


@given(st.lists(st.tuples(st.integers(), st.floats()), max_size=3000))
def test_a_thinned_history_keeps_its_ends(history: History) -> None:
    found = thinned(history)
    assert len(found) == min(len(history), MOST_POINTS)
    assert found[:1] == history[:1]
    assert found[-1:] == history[-1:]
    assert len(found) < MOST_POINTS or len(set(map(id, found))) == len(found)
