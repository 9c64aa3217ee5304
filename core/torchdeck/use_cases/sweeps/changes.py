"""Change a sweep that exists: more trials, other values, stop, continue. Its driver takes the change up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchdeck.config.problems import ConfigError, Problem
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.lock_file import changing
from torchdeck.contract.refusal import Refusal
from torchdeck.sweeps.decisions import has_work, is_hopeless
from torchdeck.sweeps.parameter import OPTION, Parameter
from torchdeck.sweeps.path_values import absolute_parameter
from torchdeck.sweeps.strategies import MOST_TRIALS, check_strategy
from torchdeck.sweeps.sweep_layout import SweepLayout
from torchdeck.sweeps.sweep_state import EXTENDED, RESUMED, STOP, VARIED, SweepFollower, SweepState
from torchdeck.sweeps.swept_file import read_space


def request_stop(layout: SweepLayout) -> None:
    """Ask for the end of a sweep: its runs save and stop, no further one is started. Raises Refusal."""
    state = SweepFollower(layout).refresh()
    if not state.active and not has_work(state):
        raise Refusal(f"sweep {layout.id} has ended: nothing to stop")
    _change(layout, STOP)


def request_resume(layout: SweepLayout) -> None:
    """Ask for the rest of a sweep that was stopped or interrupted, or failed. Raises Refusal."""
    state = SweepFollower(layout).refresh()
    if state.is_stopping or is_hopeless(state):
        _change(layout, RESUMED)


def extend(layout: SweepLayout, trials: int, over: Sequence[str] = ()) -> None:
    """Ask for more trials, or other values of parameters for trials that have not begun.

    Args:
        layout: of the sweep.
        trials: number of further trials.
        over: parameters with their new values; their names are those of the sweep.

    Raises:
        ConfigError: a parameter is wrong.
        Refusal: no new point is left, or the change cannot be written.
    """
    state = SweepFollower(layout).refresh()
    over = [absolute_parameter(text, Path.cwd()) for text in over]
    if not trials and not over:
        raise Refusal("neither trials nor values are given", fix="--trials N, or --over KEY=VALUES")
    if state.most + trials > MOST_TRIALS:
        raise Refusal(f"a sweep has at most {MOST_TRIALS:,} trials, this one {state.most:,}")
    space = _varied(state, over) if over else state.space
    after = replace(state, space=space, most=state.most + trials, is_stopping=False, asked=time.time())
    if not state.active and not has_work(after):
        raise Refusal(
            f"sweep {layout.id} has nothing left to try",
            fix="more trials with --trials, and for a grid or zip other values with --over",
        )
    if over:
        _change(layout, VARIED, over=over)
    if trials:
        _change(layout, EXTENDED, trials=trials)


def _varied(state: SweepState, over: Sequence[str]) -> tuple[Parameter, ...]:
    """Return the space with other values of some parameters. Raises ConfigError."""
    space = {each.name: each for each in state.space}
    new = read_space(over, state.request.file)
    strange = [each.name for each in new if each.name not in space]
    if strange:
        right = f"one of {', '.join(space)}"
        problems = [Problem(name, OPTION, None, "the sweep does not vary it", right) for name in strange]
        raise ConfigError(problems)
    varied = tuple((space | {each.name: each for each in new}).values())
    check_strategy(state.request.strategy, varied)
    return varied


def _change(layout: SweepLayout, event: str, **fields: Any) -> None:
    try:
        with changing(layout.changes), JournalWriter(layout.changes) as journal:
            journal.append(event, **fields)
    except OSError as error:
        raise Refusal(f"{layout.changes} cannot be written", error.strerror or error) from error
