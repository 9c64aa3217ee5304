"""State of a sweep, folded from its request, its journal and later changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torchdeck.config.problems import ConfigError, Problem
from torchdeck.contract.journal import Event, JournalReader
from torchdeck.runs.replay import typed
from torchdeck.sweeps.goal import Goal
from torchdeck.sweeps.parameter import Parameter, parse_parameter
from torchdeck.sweeps.results import BestSoFar, best_so_far, best_trial
from torchdeck.sweeps.strategies import MOST_TRIALS
from torchdeck.sweeps.sweep_layout import SweepLayout
from torchdeck.sweeps.sweep_request import SweepRequest, read_request
from torchdeck.sweeps.trials import Outcome, Trial, TrialRun

BEGUN, STARTED, INFEASIBLE, JUDGED, PRUNING, STOPPING, ENDED, CONTINUED = (
    "trial_begun",
    "trial_started",
    "trial_infeasible",
    "trial_judged",
    "trial_pruning",
    "trial_stopping",
    "trial_ended",
    "trial_continued",
)
"""Events of the journal: before a run is started, its id, instead of it, a rung of `asha`, before it is
pruned, before it is stopped with the sweep, its end, and after it was resumed with the sweep.
"""
EXTENDED, VARIED, STOP, RESUMED = "extended", "varied", "stop", "resumed"
"""Events of the changes: more trials, other values of a parameter, stop all runs, continue."""


@dataclass(frozen=True)
class SweepState:
    """A sweep at one moment."""

    id: str
    request: SweepRequest
    space: tuple[Parameter, ...]
    """Parameters as of the last change; trials already begun keep their values."""
    trials: tuple[Trial, ...]
    most: int
    """Number of trials asked for."""
    is_stopping: bool = False
    """The last request was to stop."""
    asked: float = 0.0
    """Unix seconds of the last request to continue, extend or vary; 0: there was none."""

    @property
    def goal(self) -> Goal:
        return self.request.goal

    @property
    def values(self) -> dict[int, float]:
        """Mean value of each complete trial, by number."""
        found = {trial.number: trial.judged for trial in self.trials}
        return {number: each.mean for number, each in found.items() if each is not None}

    @property
    def best(self) -> Trial | None:
        """The best complete trial."""
        number = best_trial(self.values, self.goal)
        return None if number is None else self.trial(number)

    @property
    def best_so_far(self) -> list[BestSoFar]:
        return best_so_far(self.values, self.goal)

    @property
    def active(self) -> list[tuple[Trial, TrialRun]]:
        """Runs that are not over, with their trials."""
        return [(trial, run) for trial in self.trials for run in trial.runs.values() if not run.is_over]

    @property
    def steps(self) -> int:
        """Steps of all runs that are over."""
        return sum(trial.steps for trial in self.trials)

    def trial(self, number: int) -> Trial:
        """Return a trial by its number, which has begun."""
        return self.trials[number - 1]

    def count(self, outcome: Outcome) -> int:
        """Return how many trials are in a state."""
        return sum(trial.outcome is outcome for trial in self.trials)


class SweepHistory:
    """Fold of the events of a sweep; damaged ones are skipped.

    Args:
        sweep_id: id of the sweep.
        request: its request.
    """

    def __init__(self, sweep_id: str, request: SweepRequest) -> None:
        self._id, self._request = sweep_id, request
        self._trials: dict[int, Trial] = {}
        self._space = {each.name: each for each in _parameters(request.over)}
        self._most = request.trials
        self._is_stopping = False
        self._asked = 0.0

    def driver_event(self, event: Event) -> None:
        """Take an event of the journal."""
        fields, number = event.fields, typed.whole(event.fields, "trial")
        if number is None or not 1 <= number <= MOST_TRIALS:
            return
        trial = self._trials.get(number)
        if trial is None:
            point = typed.mapping(fields, "point")
            if event.name != BEGUN or not point:
                return
            trial = Trial(number, point, seeds=self._request.seeds)
        if event.name == INFEASIBLE:
            started = {seed: run for seed, run in trial.runs.items() if run.id}
            why = typed.text(fields, "why") or "it cannot run"
            self._trials[number] = replace(trial, runs=started, infeasible=why)
            return
        seed = typed.whole(fields, "seed") or 0
        run = self._run_after(event, trial.runs.get(seed), seed)
        if run is not None:
            self._trials[number] = replace(trial, runs={**trial.runs, seed: run})

    @staticmethod
    def _run_after(event: Event, run: TrialRun | None, seed: int) -> TrialRun | None:
        fields = event.fields
        if event.name == BEGUN:
            tries = 1 if run is None else run.tries + run.is_over
            return TrialRun(seed, typed.text(fields, "name"), event.time, tries=tries)
        if run is None:
            return None
        if event.name == STARTED:
            return replace(run, id=typed.text(fields, "run"))
        if event.name == JUDGED:
            return replace(run, rung=typed.whole(fields, "rung") or 0)
        if event.name == PRUNING:
            return replace(run, pruned=typed.text(fields, "why") or "asked to stop")
        if event.name == STOPPING:
            return replace(run, is_stopping=True)
        if event.name == ENDED:
            return _ended(run, fields)
        if event.name == CONTINUED:
            return replace(run, outcome=Outcome.RUNNING, is_stopping=False, is_paused=False)
        return None

    def change(self, event: Event) -> None:
        """Take an event of the changes."""
        if event.name == EXTENDED:
            more = typed.whole(event.fields, "trials") or 0
            self._most = min(self._most + max(0, more), MOST_TRIALS)
        elif event.name == VARIED:
            self._space |= {each.name: each for each in _parameters(typed.texts(event.fields, "over"))}
        self._is_stopping = event.name == STOP
        if event.name in (EXTENDED, VARIED, RESUMED):
            self._asked = event.time

    @property
    def state(self) -> SweepState:
        """The current state."""
        numbers = range(1, max(self._trials, default=0) + 1)
        trials = tuple(self._trials.get(number) or _unreadable(number) for number in numbers)
        space = tuple(self._space.values())
        return SweepState(self._id, self._request, space, trials, self._most, self._is_stopping, self._asked)


def _unreadable(number: int) -> Trial:
    """Return what stands for a trial whose beginning is damaged in the journal."""
    run = TrialRun(0, "", 0.0, outcome=Outcome.FAILED, why="its record is damaged")
    return Trial(number, {}, {0: run})


def _parameters(texts: Sequence[str]) -> list[Parameter]:
    """Return the parameters, which were valid when they were written. Raises ConfigError."""
    parsed = [parse_parameter(text) for text in texts]
    problems = [each for each in parsed if isinstance(each, Problem)]
    if problems:
        raise ConfigError(problems)
    return [each for each in parsed if isinstance(each, Parameter)]


def _ended(run: TrialRun, fields: Mapping[str, Any]) -> TrialRun | None:
    try:
        outcome = Outcome(typed.text(fields, "outcome"))
    except ValueError:
        return None
    return replace(
        run,
        outcome=outcome,
        value=_number(fields.get("value")),
        steps=typed.whole(fields, "steps") or 0,
        history=_history(fields.get("history")),
        why=typed.text(fields, "why"),
        is_paused=outcome is Outcome.STOPPED and fields.get("paused") is True,
    )


def _history(value: Any) -> tuple[tuple[int, float], ...]:
    pairs = value if isinstance(value, list) else []
    pairs = [each for each in pairs if isinstance(each, list) and len(each) == 2]
    points = [(step, _number(number)) for step, number in pairs if isinstance(step, int)]
    return tuple((step, number) for step, number in points if number is not None)


_NAMES = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def plain_number(value: float | None) -> float | str | None:
    """Return a number as journals have it: JSON has no NaN and no infinity."""
    return value if value is None or math.isfinite(value) else str(value)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        return _NAMES.get(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


class SweepFollower:
    """Reader that turns the files of a sweep into its state; each look reads only what is new.

    Raises:
        Refusal: its request cannot be read.
    """

    def __init__(self, layout: SweepLayout) -> None:
        self.layout = layout
        self._history = SweepHistory(layout.id, read_request(layout.request))
        self._journal = JournalReader(layout.journal, limit=None)
        self._changes = JournalReader(layout.changes, limit=None)

    def refresh(self) -> SweepState:
        """Return the current state.

        Raises:
            NewerFormatError: a file is from a newer Torchdeck.
            OSError: a file cannot be read.
        """
        for event in self._journal.read_new():
            self._history.driver_event(event)
        for event in self._changes.read_new():
            self._history.change(event)
        return self._history.state
