"""Points of a sweep: grid, zip and random; nothing is tried twice."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.config.problems import ConfigError
from torchdeck.sweeps import strategies
from torchdeck.sweeps.parameter import Parameter, parse_parameter
from torchdeck.sweeps.strategies import (
    Point,
    Strategy,
    grid_size,
    most_trials,
    next_point,
    usual_strategy,
)


def space(*texts: str) -> list[Parameter]:
    found = [parse_parameter(text) for text in texts]
    return [each for each in found if isinstance(each, Parameter)]


def points(strategy: Strategy, parameters: list[Parameter], most: int, seed: int = 0) -> list[Point]:
    found: list[Point] = []
    while len(found) < most:
        point = next_point(strategy, parameters, seed, len(found) + 1, found)
        if point is None:
            break
        found.append(point)
    return found


def test_a_grid_has_every_combination_once() -> None:
    found = points(Strategy.GRID, space("a=1,2", "b=x,y,z"), 100)
    assert [(each["a"], each["b"]) for each in found] == [(a, b) for a in (1, 2) for b in "xyz"]


def test_zip_takes_values_in_step() -> None:
    found = points(Strategy.ZIP, space("a=1,2", "b=x,y"), 100)
    assert found == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_random_points_depend_on_seed_and_number_alone(seed: int, most: int) -> None:
    """What is resumed after any trial draws the same further points."""
    parameters = space("lr=1e-4..1e-2:log", "b=8,16,32")
    found = points(Strategy.RANDOM, parameters, most, seed)
    assert len(found) == most
    last = next_point(Strategy.RANDOM, parameters, seed, most, found[:-1])
    assert last == found[-1]
    assert all(each.domain.has(point[each.name]) for point in found for each in parameters)


@given(st.integers(0, 1000))
def test_random_tries_no_point_twice_and_ends(seed: int) -> None:
    found = points(Strategy.RANDOM, space("a=1,2", "b=true,false"), 100, seed)
    assert len(found) <= 4
    assert not any(a == b for i, a in enumerate(found) for b in found[:i])


def test_narrowing_one_parameter_keeps_what_others_draw() -> None:
    wide = next_point(Strategy.RANDOM, space("a=0..1", "b=0..1"), 3, 7, [])
    narrow = next_point(Strategy.RANDOM, space("a=0.4..0.5", "b=0..1"), 3, 7, [])
    assert wide is not None
    assert narrow is not None
    assert wide["b"] == narrow["b"]
    assert wide["a"] != narrow["a"]


def test_values_of_different_kinds_are_different_points() -> None:
    assert len(points(Strategy.GRID, space("a=1,true,'1'"), 10)) == 3


def test_values_that_are_equal_are_one_point() -> None:
    parameters = space("a=1,2", "b=[1, 2],[1, 3]", "c={x = 1},{x = 2}")
    tried: list[Point] = [{"a": 1.0, "b": [1.0, 2], "c": {"x": 1}}, {"c": {"x": 2}, "b": [1, 2], "a": 1}]
    assert next_point(Strategy.GRID, parameters, 0, 3, tried) == {"a": 1, "b": [1, 3], "c": {"x": 1}}
    assert next_point(Strategy.GRID, parameters, 0, 3, [{"a": True, "b": [1, 2], "c": {"x": 1}}]) == {
        "a": 1, "b": [1, 2], "c": {"x": 1}
    }  # fmt: skip


def test_a_point_costs_no_comparison_of_each_with_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each point's values are read once, whatever the number of trials."""
    parameters = space(f"a={','.join(map(str, range(100)))}", "b=1,2")
    tried = points(Strategy.GRID, parameters, 150)
    read: list[Point] = []
    key = strategies._key

    def counted(point: Point) -> Hashable:
        read.append(point)
        return key(point)

    monkeypatch.setattr(strategies, "_key", counted)
    assert next_point(Strategy.GRID, parameters, 0, 151, tried) == {"a": 75, "b": 1}
    assert len(read) == 150 + 151


def test_the_usual_strategy_is_the_grid_if_it_is_covered() -> None:
    grid = space("a=1,2", "b=1,2,3")
    assert grid_size(grid) == 6
    assert usual_strategy(grid, None) is Strategy.GRID
    assert usual_strategy(grid, 6) is Strategy.GRID
    assert usual_strategy(grid, 5) is Strategy.RANDOM
    assert usual_strategy(space("a=0..1"), 5) is Strategy.RANDOM


def test_the_number_of_trials_is_known() -> None:
    grid = space("a=1,2", "b=1,2,3")
    assert most_trials(Strategy.GRID, grid, None) == 6
    assert most_trials(Strategy.GRID, grid, 20) == 6
    assert most_trials(Strategy.GRID, grid, 4) == 4
    assert most_trials(Strategy.RANDOM, space("a=0..1"), 20) == 20


@pytest.mark.parametrize(
    ("strategy", "texts", "trials", "what"),
    [
        (Strategy.GRID, ("a=0..1",), None, "needs values"),
        (Strategy.ZIP, ("a=1,2", "b=1"), None, "same number"),
        (Strategy.RANDOM, ("a=0..1",), None, "is not given"),
        (Strategy.RANDOM, ("a=0..1",), 0, "out of range"),
        (Strategy.RANDOM, ("a=0..1",), 10_001, "out of range"),
    ],
)
def test_what_does_not_fit_is_refused(
    strategy: Strategy, texts: tuple[str, ...], trials: int | None, what: str
) -> None:
    with pytest.raises(ConfigError, match=what):
        most_trials(strategy, space(*texts), trials)
