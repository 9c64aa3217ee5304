"""Points that Optuna's tree-structured Parzen estimator suggests (extra `[sweep]`).

The study is made again for each point from the trials of the sweep. The sweep's journal is the only record: a
killed driver leaves nothing that could disagree with it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from torchdeck.contract.refusal import Refusal
from torchdeck.sweeps.goal import Goal
from torchdeck.sweeps.parameter import Parameter, Range, is_same
from torchdeck.sweeps.strategies import Point
from torchdeck.sweeps.trials import Outcome, Trial

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial


class NoOptunaError(Refusal):
    """Optuna is not installed."""

    is_usage = True


def check_optuna() -> None:
    """Raise NoOptunaError unless Optuna is installed."""
    if find_spec("optuna") is None:
        raise NoOptunaError(
            "the strategy tpe needs Optuna, which is not installed", fix="pip install 'torchdeck[sweep]'"
        )


def tpe_point(
    parameters: Sequence[Parameter], goal: Goal, seed: int, number: int, trials: Sequence[Trial]
) -> Point:
    """Return the point of trial `number`; the first ten are random.

    Args:
        parameters: the space.
        goal: what the sweep looks for.
        seed: of the sweep; it, `number` and the results so far decide what is suggested.
        number: of the trial, from 1.
        trials: all earlier ones. Those with values outside the space are left out.

    Raises:
        NoOptunaError: Optuna is not installed.
    """
    check_optuna()
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    drawn = random.Random(f"{seed}:{number}").getrandbits(32)  # noqa: S311 - repeatable, not secret
    # constant_liar: runs at the same time keep away from each other
    sampler = optuna.samplers.TPESampler(seed=drawn, constant_liar=True)
    study = optuna.create_study(sampler=sampler)
    worst = max((goal.key(each.mean) for trial in trials if (each := trial.judged)), default=None)
    study.add_trials(
        [
            _as_optuna(trial, parameters, goal, worst)
            for trial in trials
            if all(each.domain.has(trial.point.get(each.name)) for each in parameters)
        ]
    )
    asked = study.ask({each.name: _distribution(each) for each in parameters})
    return {each.name: _value(each, asked.params[each.name]) for each in parameters}


def _as_optuna(trial: Trial, parameters: Sequence[Parameter], goal: Goal, worst: float | None) -> FrozenTrial:
    """Return a trial as Optuna has it: values are minimised, infeasible is as bad as the worst so far."""
    import optuna

    states = optuna.trial.TrialState
    value: float | None = None
    seen: dict[int, float] = {}
    state = states.RUNNING if trial.outcome is Outcome.RUNNING else states.FAIL
    if trial.judged is not None:
        value = goal.key(trial.judged.mean)
    elif trial.outcome is Outcome.INFEASIBLE:
        value = worst
    elif trial.outcome is Outcome.PRUNED and trial.last_value is not None:
        seen, state = {trial.steps: _finite(goal.key(trial.last_value))}, states.PRUNED
    if value is not None:
        value, state = _finite(value), states.COMPLETE
    return optuna.trial.create_trial(
        params={each.name: _index(each, trial.point[each.name]) for each in parameters},
        distributions={each.name: _distribution(each) for each in parameters},
        value=value,
        state=state,
        intermediate_values=seen,
    )


def _finite(key: float) -> float:
    """Optuna refuses NaN and takes no sum with infinities."""
    return key if math.isfinite(key) else math.copysign(1e300, key)


def _distribution(parameter: Parameter) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    domain = parameter.domain
    if not isinstance(domain, Range):
        return CategoricalDistribution(tuple(range(len(domain.values))))
    if domain.whole:
        return IntDistribution(int(domain.low), int(domain.high), log=domain.log)
    return FloatDistribution(domain.low, domain.high, log=domain.log)


def _index(parameter: Parameter, value: Any) -> Any:
    """Return a value as Optuna gets it: of a list its index, as lists of a list are no category."""
    domain = parameter.domain
    if isinstance(domain, Range):
        return int(value) if domain.whole else float(value)
    return next(index for index, each in enumerate(domain.values) if is_same(each, value))


def _value(parameter: Parameter, suggested: Any) -> Any:
    domain = parameter.domain
    if not isinstance(domain, Range):
        return domain.values[suggested]
    return int(suggested) if domain.whole else domain.rounded(float(suggested))
