"""Points that Optuna suggests: in the space, repeatable, and better than random ones."""

from __future__ import annotations

import math
from importlib.util import find_spec

import pytest

from torchdeck.sweeps import tpe_points
from torchdeck.sweeps.goal import Goal
from torchdeck.sweeps.parameter import Parameter, parse_parameter
from torchdeck.sweeps.strategies import Point
from torchdeck.sweeps.tpe_points import NoOptunaError, check_optuna, tpe_point
from torchdeck.sweeps.trials import Outcome, Trial, TrialRun

needs_optuna = pytest.mark.skipif(find_spec("optuna") is None, reason="Optuna is not installed")
LOW = Goal("loss")


def space(*texts: str) -> list[Parameter]:
    found = [parse_parameter(text) for text in texts]
    return [each for each in found if isinstance(each, Parameter)]


SPACE = space("lr=1e-4..1e-1:log", "width=8..64:int", "kind=[1],[2,3]", "on=true,false")


def trial(number: int, point: Point, value: float | None, outcome: Outcome = Outcome.COMPLETE) -> Trial:
    if outcome is Outcome.INFEASIBLE:
        return Trial(number, point, infeasible="it needs 90 GiB")
    return Trial(number, point, {0: TrialRun(0, "n", 1.0, "r", outcome, value, 10)})


def loss(point: Point) -> float:
    """Best at lr = 1e-2 and on."""
    return abs(math.log10(point["lr"]) + 2) + (0.0 if point["on"] else 1.0)


@needs_optuna
def test_suggestions_are_in_the_space_and_follow_the_results() -> None:
    trials: list[Trial] = []
    for number in range(1, 31):
        point = tpe_point(SPACE, LOW, 7, number, trials)
        assert all(each.domain.has(point[each.name]) for each in SPACE)
        assert point == tpe_point(SPACE, LOW, 7, number, trials)
        trials.append(trial(number, point, loss(point)))
    values = [loss(each.point) for each in trials]
    assert sum(values[20:]) / 10 < sum(values[:10]) / 10


@needs_optuna
def test_trials_of_every_kind_are_taken() -> None:
    """Pruned, failed, infeasible, running, and with values that are not finite or outside of the space."""
    points = [{"lr": 1e-3 * number, "width": 8, "kind": [1], "on": True} for number in range(1, 9)]
    trials = [
        trial(1, points[0], 1.0),
        trial(2, points[1], math.nan),
        trial(3, points[2], -math.inf),
        trial(4, points[3], 5.0, Outcome.PRUNED),
        trial(5, points[4], None, Outcome.PRUNED),
        trial(6, points[5], None, Outcome.FAILED),
        trial(7, points[6], None, Outcome.INFEASIBLE),
        trial(8, points[7], None, Outcome.RUNNING),
        trial(9, {**points[0], "lr": 5.0}, 1.0),
        trial(10, {"lr": 1e-3}, 1.0),
    ]
    for goal in (LOW, Goal("accuracy", is_high=True)):
        for number in (11, 30):
            more = [trial(12 + index, {**points[0], "lr": 1e-2}, 1.0) for index in range(number - 11)]
            point = tpe_point(SPACE, goal, 0, number, trials + more)
            assert all(each.domain.has(point[each.name]) for each in SPACE)


def test_without_optuna_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpe_points, "find_spec", lambda _name: None)
    with pytest.raises(NoOptunaError, match=r"pip install 'torchdeck\[sweep\]'"):
        check_optuna()
