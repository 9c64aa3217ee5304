"""A sweep in words, and as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchdeck.quantities import counted, metric
from torchdeck.sweeps.importance import FEWEST, importances
from torchdeck.sweeps.results import Judged
from torchdeck.sweeps.sweep_state import SweepState, plain_number
from torchdeck.sweeps.swept_file import differences
from torchdeck.sweeps.trials import Outcome, Trial


def value_text(value: Judged | None) -> str:
    """Return `2.3142 ± 0.0213`, or the mean alone; empty for None."""
    if value is None:
        return ""
    return (
        metric(value.mean) if value.deviation is None else f"{metric(value.mean)} ± {metric(value.deviation)}"
    )


def run_sentence(state: SweepState, trial: Trial, seed: int) -> str:
    """Return one line on what has just happened to a run of a trial."""
    name, run = f"trial {trial.number}", trial.runs.get(seed)
    if run is not None and trial.seeds > 1:
        name += f", seed {run.seed + 1}"
    head = f"{name} ({differences(trial.point)})"
    if trial.infeasible:
        return f"{head} is infeasible: {trial.infeasible}"
    if run is None or not (run.id or run.is_over):
        return f"{head}: starting"
    if not run.is_over:
        return f"{head}: stopping, {run.pruned}" if run.pruned else f"{head}: run {run.id}"
    value = "" if run.value is None else f", {state.goal.metric} {metric(run.value)}"
    why = f": {run.why}" if run.why and run.outcome is Outcome.FAILED else ""
    best = state.best
    mark = " (best)" if best is not None and best.number == trial.number else ""
    return f"{head}: {run.outcome} after {counted(run.steps, 'step')}{value}{mark}{why}"


def counts_sentence(state: SweepState) -> str:
    """Return `12 of 20 trials: 8 complete, 3 pruned, 1 infeasible`."""
    counts = [f"{number} {outcome}" for outcome in Outcome if (number := state.count(outcome))]
    return f"{len(state.trials)} of {counted(state.most, 'trial')}" + (
        f": {', '.join(counts)}" if counts else ""
    )


def best_sentence(state: SweepState) -> str:
    """Return the best trial with its values; why there is none."""
    best = state.best
    if best is None:
        return f"no trial is complete with a {state.goal.metric} yet"
    runs = ", ".join(run.id for run in best.runs.values())
    return (
        f"best: trial {best.number}, {state.goal.metric} {value_text(best.judged)} with "
        f"{differences(best.point)} (run {runs})"
    )


def importance_lines(state: SweepState) -> list[str]:
    """Return a line per parameter, the most important first; or why nothing is known."""
    values = state.values
    if len(values) < FEWEST:
        return [f"importance of parameters: known from {FEWEST} complete trials on, there are {len(values)}"]
    found = importances(_points(state), values, state.goal)
    texts = [f"{each.name} {'unknown' if each.share is None else f'{each.share:.0%}'}" for each in found]
    return [f"variance explained by each parameter alone, {len(values)} trials: {', '.join(texts)}"]


def _points(state: SweepState) -> Mapping[int, Mapping[str, Any]]:
    return {trial.number: trial.point for trial in state.trials}


def trial_json(trial: Trial) -> dict[str, Any]:
    """Return a trial as plain values."""
    judged = trial.judged
    return {
        "trial": trial.number,
        "values": dict(trial.point),
        "state": str(trial.outcome),
        "value": plain_number(None if judged is None else judged.mean),
        "deviation": None if judged is None else judged.deviation,
        "last_value": plain_number(trial.last_value),
        "steps": trial.steps,
        "why": trial.infeasible or next((run.why for run in trial.runs.values() if run.why), ""),
        "runs": [
            {
                "id": run.id,
                "seed": run.seed,
                "state": str(run.outcome),
                "value": plain_number(run.value),
                "steps": run.steps,
                "pruned": run.pruned,
            }
            for run in trial.runs.values()
        ],
    }


def sweep_json(state: SweepState, status: str) -> dict[str, Any]:
    """Return a sweep as plain values; NaN and infinity are texts."""
    best, request = state.best, state.request
    return {
        "id": state.id,
        "status": status,
        "strategy": str(request.strategy),
        "over": [parameter.text for parameter in state.space],
        "metric": request.goal.metric,
        "direction": request.goal.word,
        "seeds": request.seeds,
        "most_trials": state.most,
        "steps": state.steps,
        "counts": {str(outcome): state.count(outcome) for outcome in Outcome},
        "best": None if best is None else trial_json(best),
        "best_so_far": [
            {"trial": each.trial, "value": plain_number(each.value), "best": plain_number(each.best)}
            for each in state.best_so_far
        ],
        "importance": [
            {"name": each.name, "share": each.share}
            for each in importances(_points(state), state.values, state.goal)
        ],
        "trials": [trial_json(trial) for trial in state.trials],
    }
