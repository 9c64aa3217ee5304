"""Best trial, best so far, mean over seeds, importance."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.sweeps.goal import Goal, goal_of
from torchdeck.sweeps.importance import FEWEST, importances, ranks
from torchdeck.sweeps.results import best_so_far, best_trial, judged

LOW, HIGH = Goal("loss"), Goal("accuracy", is_high=True)
HISTORY = [(10, 3.0), (20, 1.0), (30, 2.0)]
values_of_trials = st.dictionaries(st.integers(1, 50), st.floats(allow_nan=True), max_size=20)


@pytest.mark.parametrize(
    ("metric", "value"),
    [("loss", 2.0), ("loss:last", 2.0), ("loss:best", 1.0), ("loss:min", 1.0), ("loss:max", 3.0),
     ("loss@20", 1.0), ("loss@25", 1.0), ("loss@5", None), ("loss@31", None)],
)  # fmt: skip
def test_the_metric_names_the_value_that_counts(metric: str, value: float | None) -> None:
    goal = goal_of(metric, None)
    assert goal.value_of(HISTORY) == value
    assert goal.series == "loss"
    assert goal.value_of([]) is None


def test_the_direction_follows_the_name_unless_it_is_given() -> None:
    assert not goal_of("validation_loss", None).is_high
    assert goal_of("accuracy", None).is_high
    assert goal_of("loss", "max").is_high
    assert goal_of("loss:best", "max").value_of(HISTORY) == 3.0


def test_mean_and_deviation_over_seeds() -> None:
    assert judged([2.0]) == (2.0, None)
    found = judged([1.0, 3.0])
    assert found.mean == 2.0
    assert found.deviation == pytest.approx(math.sqrt(2))
    assert math.isnan(judged([1.0, math.nan]).mean)
    assert judged([math.inf]) == (math.inf, None)


def test_the_earliest_of_equal_trials_is_the_best() -> None:
    assert best_trial({1: 2.0, 2: 1.0, 3: 1.0, 4: math.nan}, LOW) == 2
    assert best_trial({1: 2.0, 2: 1.0}, HIGH) == 1
    assert best_trial({1: math.nan}, LOW) is None
    assert best_trial({}, LOW) is None


@given(values_of_trials, st.sampled_from([LOW, HIGH]))
def test_best_so_far_only_improves_and_ends_at_the_best(values: dict[int, float], goal: Goal) -> None:
    found = best_so_far(values, goal)
    assert [each.trial for each in found] == sorted(values)
    keys = [goal.key(each.best) for each in found]
    assert all(later <= earlier for earlier, later in pairwise(keys))
    best = best_trial(values, goal)
    if best is not None:
        assert goal.key(found[-1].best) == goal.key(values[best])


@given(st.lists(st.integers(-5, 5)))
def test_ranks_add_up_and_keep_the_order(values: list[int]) -> None:
    found = ranks([float(value) for value in values])
    assert sum(found) == len(values) * (len(values) + 1) / 2
    assert all((a < b) == (x < y) for a, x in zip(values, found) for b, y in zip(values, found))  # noqa: B905


def _shares(count: int) -> dict[str, float | None]:
    """A parabola of lr, a constant of "kind", and nothing of "noise"."""
    source = random.Random(1)  # noqa: S311 - repeatable, not secret
    points = {
        trial: {"lr": source.uniform(0, 1), "kind": source.choice("ab"), "noise": source.random(), "one": 1}
        for trial in range(1, count + 1)
    }
    values = {
        trial: (float(str(point["lr"])) - 0.5) ** 2 + (0.1 if point["kind"] == "b" else 0.0)
        for trial, point in points.items()
    }
    return {each.name: each.share for each in importances(points, values, LOW)}


def test_importance_finds_what_matters_even_if_the_middle_is_best() -> None:
    found = _shares(60)
    lr, kind, noise = found["lr"], found["kind"], found["noise"]
    assert lr is not None
    assert kind is not None
    assert noise is not None
    assert lr > 0.4
    assert kind > 0.15
    assert noise < 0.1
    assert found["one"] is None
    assert next(iter(found)) == "lr"


def test_importance_says_nothing_from_few_trials() -> None:
    assert set(_shares(FEWEST - 1).values()) == {None}


@given(st.integers(8, 40), st.integers(0, 10_000))
def test_importance_is_a_share(count: int, seed: int) -> None:
    source = random.Random(seed)  # noqa: S311 - repeatable, not secret
    points = {trial: {"x": source.randint(0, 3), "y": source.choice([True, "a"])} for trial in range(count)}
    values = {trial: source.choice([1.0, 2.0, math.nan, math.inf]) for trial in range(count)}
    for each in importances(points, values, HIGH):
        assert each.share is None or 0 <= each.share <= 1
