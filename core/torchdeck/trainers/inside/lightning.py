"""The callback in Lightning's Trainer, added through its own entry points for callbacks."""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from torchdeck.contract.run_states import RankPhase
from torchdeck.trainers.inside.import_hook import installed_report
from torchdeck.trainers.inside.report import Report
from torchdeck.trainers.inside.stop_agreement import StopAgreement

NAME = "Lightning"
PLUGIN = Path(__file__).with_name("lightning_plugin")
"""Folder with a distribution's entry points, and nothing else."""
_SUFFIX = ".ckpt"
_EVENTS = (
    "fit_start",
    "train_start",
    "train_batch_start",
    "train_batch_end",
    "validation_batch_end",
    "validation_end",
    "test_batch_end",
    "test_end",
    "save_checkpoint",
    "train_end",
    "fit_end",
)


def add(module: ModuleType, report: Report) -> None:
    """Let every Trainer find the callback.

    Args:
        module: `lightning.pytorch.trainer.trainer`, or the same of `pytorch_lightning`.
        report: of this rank.
    """
    if str(PLUGIN) not in sys.path:
        sys.path.append(str(PLUGIN))
    checkpoint = report.resume
    if checkpoint is not None and checkpoint.suffix == _SUFFIX:
        _resume_from(module.Trainer, report, checkpoint)


def callbacks_of_lightning() -> list[Any]:
    """Return the callbacks of a Trainer of `lightning`; its entry point."""
    return _callbacks("lightning.pytorch")


def callbacks_of_pytorch_lightning() -> list[Any]:
    """Return the callbacks of a Trainer of `pytorch_lightning`; its entry point."""
    return _callbacks("pytorch_lightning")


def _callbacks(package: str) -> list[Any]:
    report = installed_report()
    if report is None:
        return []
    return report.guarded(NAME, "callbacks", _make_callbacks, sys.modules[package], report) or []


def _make_callbacks(package: ModuleType, report: Report) -> list[Any]:
    return [_callback_class(package.Callback, report)()]


def _callback_class(base: type, report: Report) -> type:
    """Return a Callback that passes every event to a `TrainerEvents`."""

    class TorchdeckCallback(base):  # type: ignore[misc]  # a class that the program has imported
        """Reports to Torchdeck. Pickled or copied with a trainer, it is a callback that does nothing."""

        def __init__(self) -> None:
            self._events = TrainerEvents(report)

        def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
            return base, ()

    for event in _EVENTS:
        setattr(TorchdeckCallback, f"on_{event}", _passing(event, report))
    return TorchdeckCallback


def _passing(event: str, report: Report) -> Callable[..., None]:
    def on_event(self: Any, trainer: Any, *_: Any, **__: Any) -> None:
        report.guarded(NAME, f"on_{event}", _pass, self._events, event, trainer)

    return on_event


def _pass(events: TrainerEvents, event: str, trainer: Any) -> None:
    getattr(events, event)(trainer)


class TrainerEvents:
    """The events of one Trainer."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._fits = itertools.count(1)
        self._stop = StopAgreement(None, "")
        self._stopping = False
        self._step = 0
        self._total: int | None = None
        self._between = RankPhase.LOADING
        """Phase outside steps, evaluations and saves."""

    def fit_start(self, trainer: Any) -> None:
        self._report.claim(NAME)
        self._stop = StopAgreement(self._report.stop_file, f"lightning-{next(self._fits)}")
        self._stopping, self._between = False, RankPhase.LOADING
        _follow_loggers(trainer, self._report)
        self._enter(RankPhase.LOADING, trainer)

    def train_start(self, trainer: Any) -> None:
        batches = trainer.estimated_stepping_batches
        self._total = int(batches) if 0 < batches < float("inf") else None
        self._enter(RankPhase.LOADING, trainer)  # the first step may compile
        self._report.saves_on_stop(saves=self._report.stop_file is not None)

    def train_batch_start(self, trainer: Any) -> None:
        if self._report.phase is RankPhase.SAVING:
            self._enter(self._between, trainer)
        self._report.begin_step()

    def train_batch_end(self, trainer: Any) -> None:
        if trainer.global_step == self._step:
            return  # gradients are accumulated
        self._step, self._between = trainer.global_step, RankPhase.TRAINING
        self._report.step(self._step, self._total)
        if not self._stopping and self._stop.reached(self._step):
            self._stopping = True
            self._report.enter(RankPhase.SAVING)
            path = _stop_checkpoint(trainer)
            trainer.save_checkpoint(path)
            if not trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
                _replace_saves(trainer, path)
            trainer.fit_loop.min_epochs = trainer.fit_loop.epoch_loop.min_steps = None
            trainer.should_stop = True

    def validation_batch_end(self, trainer: Any) -> None:
        self._report.enter(RankPhase.LOADING if trainer.sanity_checking else RankPhase.EVALUATING)

    def validation_end(self, _trainer: Any) -> None:
        self._report.enter(self._between)

    test_batch_end = validation_batch_end
    test_end = validation_end

    def save_checkpoint(self, _trainer: Any) -> None:
        self._report.enter(RankPhase.SAVING)

    def train_end(self, _trainer: Any) -> None:
        self._report.saves_on_stop(saves=False)

    def fit_end(self, trainer: Any) -> None:
        self._between = RankPhase.STOPPING if self._stopping else RankPhase.DONE
        self._enter(self._between, trainer)

    def _enter(self, phase: RankPhase, trainer: Any) -> None:
        self._step = trainer.global_step
        self._report.enter(phase, step=self._step, total=self._total)


def _stop_checkpoint(trainer: Any) -> str:
    """Return the path of the checkpoint of a stop: beside the others, named as Lightning names them."""
    own = getattr(trainer.checkpoint_callback, "dirpath", None)
    folder = own or f"{trainer.default_root_dir}/checkpoints"
    return f"{folder}/epoch={trainer.current_epoch}-step={trainer.global_step}{_SUFFIX}"


def _replace_saves(trainer: Any, path: str) -> None:
    """Let each ModelCheckpoint take the checkpoint of a stop for its own of this step, so that it saves none.

    Lightning ends the epoch of a stop early and calls it complete: what is saved at its end resumes with the
    next epoch, and the rest of this one would never be trained.
    """
    for callback in trainer.checkpoint_callbacks:
        if hasattr(callback, "_last_global_step_saved"):  # of a ModelCheckpoint, since Lightning 1.6
            callback._last_global_step_saved = trainer.global_step  # noqa: SLF001 - no public call skips a save
            callback._last_checkpoint_saved = path  # noqa: SLF001 - on_train_end saves where this is empty


def _follow_loggers(trainer: Any, report: Report) -> None:
    """Record what the trainer gives to its loggers, on every rank, also if it has no logger."""
    connector = trainer._logger_connector  # noqa: SLF001 - no public call passes values and step
    if "log_metrics" in vars(connector):
        return
    original = connector.log_metrics

    def record(metrics: Any, step: Any = None) -> None:
        values = dict(metrics)
        own = values.pop("step", None)
        if step is None:
            values.setdefault("epoch", trainer.current_epoch)
            # the step that Lightning gives to loggers
            step = own if own is not None else trainer.fit_loop.epoch_loop._batches_that_stepped  # noqa: SLF001
        if values.keys() - {"epoch"}:
            report.metrics(values, int(step))

    def log_metrics(*args: Any, **kwargs: Any) -> Any:
        report.guarded(NAME, "log_metrics", record, *args, **kwargs)
        return original(*args, **kwargs)

    connector.log_metrics = log_metrics


def _resume_from(trainer: type, report: Report, checkpoint: Path) -> None:
    """Let the first fit resume from a checkpoint, unless the program names one itself."""
    original = trainer.fit  # type: ignore[attr-defined]  # a class that the program has imported
    signature = inspect.signature(original)

    def resumed(*args: Any, **kwargs: Any) -> inspect.BoundArguments | None:
        bound = signature.bind(*args, **kwargs)
        first, report.resume = report.resume is not None, None
        if not first or bound.arguments.get("ckpt_path"):
            return None
        bound.arguments["ckpt_path"] = str(checkpoint)
        return bound

    @functools.wraps(original)
    def fit(*args: Any, **kwargs: Any) -> Any:
        bound = report.guarded(NAME, "resume", resumed, *args, **kwargs)
        return original(*args, **kwargs) if bound is None else original(*bound.args, **bound.kwargs)

    trainer.fit = fit  # type: ignore[attr-defined]  # as above
