"""Whether a trial that still runs should be stopped, from the histories of all trials of its sweep.

median: Golovin et al., "Google Vizier: A Service for Black-Box Optimization" (KDD 2017), as Optuna's
MedianPruner has it. asha: Li et al., "A System for Massively Parallel Hyperparameter Tuning" (MLSys 2020), in
its stopping form, as Ray Tune and Optuna have it.
"""

from __future__ import annotations

import math
import statistics
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
    pruning: Pruning, goal: Goal, own: History, others: Sequence[History], complete: Sequence[History]
) -> str:
    """Return why a trial should be stopped, as a clause; empty if it should continue.

    Args:
        pruning: the rule.
        goal: whether low or high values are good.
        own: history of the trial.
        others: histories of all other trials, also of those that were pruned.
        complete: those of them that are complete, the first one first.
    """
    first = first_step(pruning, complete)
    if first is None or not own or own[-1][0] < first:
        return ""
    if pruning.rule is Pruner.MEDIAN:
        return _by_median(goal, own, complete)
    return _by_rungs(goal, own, others, first, pruning.factor)


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


def _by_rungs(goal: Goal, own: History, others: Sequence[History], first: int, factor: int) -> str:
    """The trial must be in the best part at each rung it has reached; at a rung's start all continue."""
    for rung in rungs(first, factor, own[-1][0]):
        value = _at(own, rung)
        there = [found for each in others if (found := _at(each, rung)) is not None]
        if value is None:
            continue
        better = sum(goal.key(each) < goal.key(value) for each in there)
        kept = max(1, (len(there) + 1) // factor)
        if better >= kept:
            return f"at step {rung} it is number {better + 1} of {len(there) + 1}, and {kept} continue"
    return ""


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
"""Points of a history that are kept; a pruner reads no more."""


def thinned(history: History) -> list[tuple[int, float]]:
    """Return at most `MOST_POINTS` points of a history, evenly chosen, with the first and the last."""
    if len(history) <= MOST_POINTS:
        return list(history)
    step = (len(history) - 1) / (MOST_POINTS - 1)
    return [history[math.floor(index * step)] for index in range(MOST_POINTS - 1)] + [history[-1]]
