"""Rules of what a recipe's training does around its steps: early stopping, traces."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.config.rules.findings import Finding, Given, Rule
from torchdeck.config.toml.document import KeyPath

_PATIENCE, _MIN_DELTA = ("training", "patience"), ("training", "min_delta")
_EVAL_EVERY, _STEPS = ("training", "eval_every"), ("training", "steps")
_PROFILE_STEPS: KeyPath = ("telemetry", "profile_steps")


def early_stopping(given: Given) -> Iterator[Finding]:
    """Patience is counted in evaluations, and min_delta says what they are compared by."""
    training = given.config.training
    if training.patience is not None and training.eval_every is None:
        wrong = "patience counts evaluations, and there are none: training.eval_every is absent"
        yield Finding(_PATIENCE, wrong, "training.eval_every = 100, or no patience", (_EVAL_EVERY,))
    if training.min_delta and training.patience is None:
        wrong = "it has no effect without training.patience"
        yield Finding(_MIN_DELTA, wrong, "training.patience = 3, or no min_delta", (_PATIENCE,))


def profile_steps(given: Given) -> Iterator[Finding]:
    """A window of steps from the first on that training reaches."""
    window, steps = given.config.telemetry.profile_steps, given.config.training.steps
    if window is None:
        return
    first, last = window
    right = "two steps from 1 on, the second not before the first, such as [10, 12]"
    if first < 1 or last < first:
        yield Finding(_PROFILE_STEPS, f"steps {first} to {last} are no part of a training", right)
    elif steps is not None and first > steps:
        wrong = f"training ends at step {steps}, before step {first}"
        yield Finding(_PROFILE_STEPS, wrong, f"steps up to {steps}", (_STEPS,))


TRAINING_RULES: tuple[Rule, ...] = (early_stopping, profile_steps)
