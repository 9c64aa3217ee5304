"""Steps of torchtitan's trainer; starting it again continues from its newest checkpoint."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from torchdeck.trainers.inside.report import Report

NAME = "torchtitan"


def add(module: ModuleType, report: Report) -> None:
    """Report step and total whenever the trainer asks whether to continue: before each step, and at the end.

    Args:
        module: `torchtitan.trainer`.
        report: of this rank.
    """
    original = module.Trainer.should_continue_training

    def reports(trainer: Any) -> None:
        if report.claims(NAME):
            report.count(trainer.step, total=trainer.config.training.steps)

    @functools.wraps(original)
    def should_continue_training(self: Any, *args: Any, **kwargs: Any) -> Any:
        report.guarded(NAME, "should_continue_training", reports, self)
        return original(self, *args, **kwargs)

    module.Trainer.should_continue_training = should_continue_training
