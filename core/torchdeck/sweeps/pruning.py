"""Whether a trial that still runs should be stopped, from the histories of all trials of its sweep.

median: Golovin et al., "Google Vizier: A Service for Black-Box Optimization" (KDD 2017), as Optuna's
MedianPruner has it. asha: Li et al., "A System for Massively Parallel Hyperparameter Tuning" (MLSys 2020), in
its stopping form, as Ray Tune and Optuna have it.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from torchdeck.sweeps.goal import Goal

History = Sequence[tuple[int, float]]
"""Step and value of a metric, by ascending step."""
STARTUP = 4
"""Trials that must be complete before `median` prunes: the median of fewer says little."""


class Pruner(StrEnum):
    """Rule by which trials are pruned."""

    MEDIAN = "median"
    """Stop a trial whose best value so far is worse than the median of the complete trials at that step."""
    ASHA = "asha"
    """At steps that grow by a factor, stop a trial that is not in the best part of those that got there."""


@dataclass(frozen=True)
class Pruning:
    """How a sweep prunes."""

    rule: Pruner
    after: int | None = None
    """First step at which a trial may be pruned. None: as `first_step`."""
    factor: int = 3
    """asha: one in so many continues at each rung; rungs are `after` × factor ^ k."""


def first_step(pruning: Pruning, complete: Sequence[History]) -> int | None:
    """Return the first step at which a trial may be pruned; None while it is unknown.

    By default it is the length of the first complete trial divided by factor²: two rungs come before the end.
    """
    if pruning.after is not None:
        return pruning.after
    if not complete or not complete[0]:
        return None
    return max(1, complete[0][-1][0] // pruning.factor**2)


def why_pruned(
    pruning: Pruning,
    goal: Goal,
    own: History,
    others: Sequence[History],
    complete: Sequence[History],
    judged: int = 0,
) -> str:
    """Return why a trial should be stopped, as a clause; empty if it should continue.

    Args:
        pruning: the rule.
        goal: whether low or high values are good.
        own: history of the trial.
        others: histories of all other trials, also of those that were pruned.
        complete: those of them that are complete, the first one first.
        judged: last rung at which `asha` judged the trial; 0: none.
    """
    first = first_step(pruning, complete)
    if first is None or not own or own[-1][0] < first:
        return ""
    if pruning.rule is Pruner.MEDIAN:
        return _by_median(goal, own, complete)
    rung = rungs(first, pruning.factor, own[-1][0])[-1]
    return _by_rung(goal, own, others, rung, pruning.factor) if rung > judged else ""


def last_rung(pruning: Pruning, own: History, complete: Sequence[History]) -> int:
    """Return the last rung of `asha` that a trial has reached; 0 if there is none."""
    return next(reversed(_rungs_of(pruning, own, complete)), 0)


def _rungs_of(pruning: Pruning, own: History, complete: Sequence[History]) -> list[int]:
    first = first_step(pruning, complete)
    if pruning.rule is not Pruner.ASHA or first is None or not own:
        return []
    return rungs(first, pruning.factor, own[-1][0])


def _by_median(goal: Goal, own: History, complete: Sequence[History]) -> str:
    step = own[-1][0]
    there = [value for each in complete if (value := _last_until(each, step)) is not None]
    if len(there) < STARTUP:
        return ""
    best = min((value for _, value in own), key=goal.key)
    median = statistics.median(map(goal.key, there))
    if goal.key(best) <= median:
        return ""
    return f"its best value by step {step}, {best:.6g}, is worse than the median of {len(there)} trials"


def _by_rung(goal: Goal, own: History, others: Sequence[History], rung: int, factor: int) -> str:
    """The trial must be in the best part of those that have reached the rung so far."""
    value = _at(own, rung)
    there = [found for each in others if (found := _at(each, rung)) is not None]
    if value is None:
        return ""
    better = sum(goal.key(each) < goal.key(value) for each in there)
    kept = max(1, (len(there) + 1) // factor)
    if better < kept:
        return ""
    return f"at step {rung} it is number {better + 1} of {len(there) + 1}, and {kept} continue"


def rungs(first: int, factor: int, last: int) -> list[int]:
    """Return the rungs up to step `last`, ascending."""
    found = []
    rung = first
    while rung <= last:
        found.append(rung)
        rung *= factor
    return found


def _at(history: History, rung: int) -> float | None:
    """Return the first value at or after a step; None if the trial did not get there."""
    return next((value for step, value in history if step >= rung), None)


def _last_until(history: History, step: int) -> float | None:
    """Return the last value up to a step; None if the trial did not get there or has no value so early."""
    if not history or history[-1][0] < step:
        return None
    return next((value for at, value in reversed(history) if at <= step), None)


MOST_POINTS = 256
"""Points of a history that are kept, besides those at the rungs."""


def thinned(
    history: History, pruning: Pruning | None = None, complete: Sequence[History] = ()
) -> list[tuple[int, float]]:
    """Return `MOST_POINTS` points of a history, evenly chosen, with the first and the last.

    The points that `asha` compares are added: the first one at or after each rung.

    Args:
        history: of a trial that is over.
        pruning: the rule; None: trials are not pruned.
        complete: as for `why_pruned`; with this history if it is complete.
    """
    if len(history) <= MOST_POINTS:
        return list(history)
    step = (len(history) - 1) / (MOST_POINTS - 1)
    kept = {math.floor(index * step) for index in range(MOST_POINTS - 1)} | {len(history) - 1}
    reached = [] if pruning is None else _rungs_of(pruning, history, complete)
    kept |= {bisect_left(history, rung, key=lambda point: point[0]) for rung in reached}
    return [history[index] for index in sorted(kept)]
