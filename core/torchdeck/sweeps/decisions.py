"""Next actions of the driver of a sweep, from its state and what its runs have logged so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torchdeck.sweeps.pruning import History, last_rung, why_pruned
from torchdeck.sweeps.strategies import Point, Strategy, next_point
from torchdeck.sweeps.sweep_state import SweepState
from torchdeck.sweeps.tpe_points import tpe_point
from torchdeck.sweeps.trials import Outcome

HOPELESS = 3
"""Failed trials without a complete one after which no further one is started, unless the user asks for it."""


class Start(NamedTuple):
    """A run to start."""

    trial: int
    seed: int
    point: Point


class RunKey(NamedTuple):
    """One run of a sweep."""

    trial: int
    seed: int


def next_start(state: SweepState) -> Start | None:
    """Return the next run to start, whether or not there is room for it; None if there is none.

    Raises:
        NoOptunaError: the strategy needs Optuna, which is not installed.
    """
    if state.is_stopping or is_hopeless(state):
        return None
    unfinished = _next_seed(state)
    if unfinished is not None:
        return unfinished
    number = len(state.trials) + 1
    if number > state.most:
        return None
    request = state.request
    if request.strategy is Strategy.TPE:
        return Start(number, 0, tpe_point(state.space, state.goal, request.seed, number, state.trials))
    tried = [trial.point for trial in state.trials]
    point = next_point(request.strategy, state.space, request.seed, number, tried)
    return None if point is None else Start(number, 0, point)


def _next_seed(state: SweepState) -> Start | None:
    """Return the next seed of a trial that has begun."""
    for trial in state.trials:
        if trial.wants_more:
            seed = next(seed for seed in range(trial.seeds) if seed not in trial.runs)
            return Start(trial.number, seed, trial.point)
    return None


def next_continued(state: SweepState) -> RunKey | None:
    """Return the next run that was stopped with the sweep and continues with it; None if there is none."""
    if state.is_stopping:
        return None
    paused = (
        RunKey(trial.number, run.seed)
        for trial in state.trials
        for run in trial.runs.values()
        if run.is_paused
    )
    return next(paused, None)


def has_work(state: SweepState) -> bool:
    """Return whether a driver would start or continue a run, now or later."""
    if next_continued(state) is not None:
        return True
    if state.request.strategy is Strategy.TPE:  # a suggestion takes long, and there always is one
        more = len(state.trials) < state.most or _next_seed(state) is not None
        return more and not state.is_stopping and not is_hopeless(state)
    return next_start(state) is not None


def is_hopeless(state: SweepState) -> bool:
    """Return whether all trials since the last request have failed: a further one would, too."""
    failed = [trial for trial in state.trials if trial.outcome is Outcome.FAILED]
    since = sum(trial.begun > state.asked for trial in failed)
    return since >= HOPELESS and not state.count(Outcome.COMPLETE)


def runs_to_prune(state: SweepState, live: Mapping[RunKey, History]) -> dict[RunKey, str]:
    """Return the runs to stop, and why.

    Args:
        state: of the sweep.
        live: histories of the runs that are not over.
    """
    pruning = state.request.pruning
    if pruning is None:
        return {}
    found: dict[RunKey, str] = {}
    for trial, run in state.active:
        key = RunKey(trial.number, run.seed)
        if run.pruned or not run.id:
            continue
        if any(other.pruned for other in trial.runs.values()):
            found[key] = "another run of its trial was pruned"
            continue
        others = _others(state, live, key)
        complete = complete_histories(state, key)
        why = why_pruned(pruning, state.goal, live.get(key, ()), others, complete, run.rung)
        if why:
            found[key] = why
    return found


def rungs_to_note(state: SweepState, live: Mapping[RunKey, History]) -> dict[RunKey, int]:
    """Return the runs that have reached a further rung of `asha`, at which they are judged once."""
    pruning = state.request.pruning
    if pruning is None:
        return {}
    reached = {
        (key := RunKey(trial.number, run.seed)): last_rung(
            pruning, live.get(key, ()), complete_histories(state, key)
        )
        for trial, run in state.active
    }
    return {key: rung for key, rung in reached.items() if rung > state.trial(key.trial).runs[key.seed].rung}


def _others(state: SweepState, live: Mapping[RunKey, History], key: RunKey) -> list[History]:
    """Histories of the runs of all other trials."""
    return [
        run.history if run.is_over else live.get(RunKey(trial.number, seed), ())
        for trial in state.trials
        if trial.number != key.trial
        for seed, run in trial.runs.items()
    ]


def complete_histories(state: SweepState, key: RunKey) -> list[History]:
    """Return the histories of the complete runs of all other trials, the first one first."""
    return [
        run.history
        for trial in state.trials
        if trial.number != key.trial
        for run in trial.runs.values()
        if run.outcome is Outcome.COMPLETE
    ]
