"""torchtitan's trainer: its steps and metrics, and a stop that saves a checkpoint to continue from.

Starting it again continues from its newest checkpoint.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from torchdeck.contract.run_states import RankPhase
from torchdeck.trainers.inside.report import Report
from torchdeck.trainers.inside.stop_agreement import StopAgreement, save_at_stop

NAME = "torchtitan"


def add(module: ModuleType, report: Report) -> None:
    """Follow the trainer whenever it asks whether to continue: before each step, and at the end.

    It asks on every rank, after the step's own save and validation.

    Args:
        module: `torchtitan.trainer`.
        report: of this rank.
    """
    original = module.Trainer.should_continue_training
    training = Training(report)

    @functools.wraps(original)
    def should_continue_training(self: Any, *args: Any, **kwargs: Any) -> Any:
        continues = original(self, *args, **kwargs)
        stops = report.guarded(NAME, "should_continue_training", training.ends, self, continues=continues)
        return continues and not stops

    module.Trainer.should_continue_training = should_continue_training
    processor = module.MetricsProcessor
    for method, values in (("log", logged), ("log_validation", logged_validation)):
        setattr(processor, method, _reporting(getattr(processor, method), report, values))


class Training:
    """Follows one training."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._stop = StopAgreement(report.stop_file, "torchtitan")
        self._begin: int | None = None
        """The step that it began with: 0, or that of the checkpoint it loaded."""

    def ends(self, trainer: Any, *, continues: bool) -> bool:
        """Report step and total; at a stop save, and return whether the training is to end after this step.

        Args:
            trainer: torchtitan's.
            continues: it has more steps to do.

        Raises:
            SystemExit: the checkpoint could not be saved.
        """
        if not self._report.claims(NAME):
            return False
        if self._begin is None:
            self._begin = trainer.step
        total = trainer.config.training.steps
        self._report.count(trainer.step, total=total)
        # the same on all ranks; at its end the trainer has saved by itself
        saves = continues and self._report.stop_file is not None and _saves(trainer.checkpointer)
        self._report.saves_on_stop(saves=saves)
        if not saves or not self._stop.reached(trainer.step):
            return False
        self._report.count(trainer.step, total=total, phase=RankPhase.SAVING)
        with save_at_stop():
            if trainer.step != self._begin:
                _save(trainer.checkpointer, trainer.step)
            self._stop.wait_for_all()
        self._report.count(trainer.step, total=total, phase=RankPhase.STOPPING)
        return True


def _saves(checkpointer: Any) -> bool:
    """Return whether it saves at all, and by intervals, which is how it is asked to save."""
    return checkpointer.enable and not checkpointer.load_only and hasattr(checkpointer, "_should_save")


def _save(checkpointer: Any, step: int) -> None:
    """Save all that a training continues from, unless the trainer has saved this step.

    It is on disk at the end. A save of the "last step" has the weights alone, by default, so the step is
    made one of those at which the trainer saves.
    """
    if not checkpointer._should_save(step):  # noqa: SLF001 - no public call answers this
        interval, checkpointer.interval = checkpointer.interval, step
        try:
            checkpointer.save(step)
        finally:
            checkpointer.interval = interval
    checkpointer.maybe_wait_for_saving()


def _reporting(original: Any, report: Report, values: Any) -> Any:
    """Return a method of `MetricsProcessor` that also records what `values` returns for its arguments."""

    def reports(*args: Any, **kwargs: Any) -> None:
        if report.claims(NAME):
            step, metrics = values(*args, **kwargs)
            report.metrics(metrics, step)

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        report.guarded(NAME, original.__name__, reports, *args, **kwargs)
        return original(*args, **kwargs)

    return method


def logged(
    processor: Any,
    step: int,
    global_avg_loss: float,
    global_max_loss: float,
    grad_norm: float,
    extra_metrics: dict[str, Any] | None = None,
) -> tuple[int, dict[str, Any]]:
    """Return step and values of `MetricsProcessor.log`; its loss is named as in the line it prints.

    In a pipeline, stages without a loss log the sum of -1 over their ranks; that is left out.
    """
    losses = {"loss": global_avg_loss, "loss_metrics/global_max_loss": global_max_loss}
    has_loss = global_avg_loss >= 0 or not processor.parallel_dims.pp_enabled
    return step, {**(losses if has_loss else {}), "grad_norm": grad_norm, **(extra_metrics or {})}


def logged_validation(
    processor: Any, loss: float, step: int, extra_metrics: dict[str, Any] | None = None
) -> tuple[int, dict[str, Any]]:
    """Return step and values of `MetricsProcessor.log_validation`; named as in `logged`."""
    has_loss = loss >= 0 or not processor.parallel_dims.pp_enabled
    return step, {**({"validation_loss": loss} if has_loss else {}), **(extra_metrics or {})}
