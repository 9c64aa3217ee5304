"""Trials of a sweep as a table in the terminal."""

from __future__ import annotations

from torchdeck.quantities import metric
from torchdeck.sweeps.sweep_state import SweepState
from torchdeck.sweeps.sweep_text import value_text
from torchdeck.sweeps.trials import Trial

_GAP = "  "


def trial_table(state: SweepState) -> list[str]:
    """Return a heading and a line per trial; none without trials."""
    if not state.trials:
        return []
    names = list(dict.fromkeys(name for trial in state.trials for name in trial.point))
    heading = ("TRIAL", "STATE", state.goal.metric.upper(), "BEST", "STEPS", *names, "RUNS")
    best = {each.trial: metric(each.best) for each in state.best_so_far}
    rows = [heading, *(_row(trial, names, best.get(trial.number, "")) for trial in state.trials)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [_GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    return [line.rstrip() for line in lines]


def _row(trial: Trial, names: list[str], best: str) -> tuple[str, ...]:
    last = trial.last_value
    value = value_text(trial.judged) or ("" if last is None else f"({metric(last)})")
    runs = ", ".join(run.id for run in trial.runs.values() if run.id)
    values = (_cell(trial.point.get(name)) for name in names)
    return str(trial.number), str(trial.outcome), value, best, f"{trial.steps:,}", *values, runs


def _cell(value: object) -> str:
    if value is None:  # the record of the trial is damaged
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
