"""Steps that DeepSpeed's engine counts; its loop, its saves and its stop stay the program's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torchdeck.contract.run_states import RankPhase
from torchdeck.trainers.inside.accelerate_loop import NAME as ACCELERATE
from torchdeck.trainers.inside.report import Report

NAME = "DeepSpeed"


def add(module: ModuleType, report: Report) -> None:
    """Report each engine's own number of steps, which a loaded checkpoint restores.

    Args:
        module: `deepspeed.runtime.engine`.
        report: of this rank.
    """
    engine = module.DeepSpeedEngine
    # called at the end of accumulation, also by the engine for pipelines
    engine._take_model_step = _around(engine._take_model_step, report, RankPhase.TRAINING)  # noqa: SLF001 - no public call is made per optimizer step
    engine.save_checkpoint = _around(engine.save_checkpoint, report, RankPhase.SAVING)


def _around(original: Callable[..., Any], report: Report, phase: RankPhase) -> Callable[..., Any]:
    def reports(engine: Any, now: RankPhase) -> None:
        if report.claims(NAME, over=(ACCELERATE,)):
            report.count(engine.global_steps, phase=now)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        report.guarded(NAME, original.__name__, reports, self, phase)
        done = original(self, *args, **kwargs)
        report.guarded(NAME, original.__name__, reports, self, RankPhase.TRAINING)
        return done

    return method
