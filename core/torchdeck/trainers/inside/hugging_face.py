"""The callback in Hugging Face's Trainer; those of TRL, Axolotl, LLaMA-Factory and ms-swift inherit it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from torchdeck.contract.run_states import RankPhase
from torchdeck.trainers.inside.report import Report
from torchdeck.trainers.inside.stop_agreement import StopAgreement

NAME = "Hugging Face Trainer"
STATE_FILE = "trainer_state.json"
"""Written last into a checkpoint."""


def add(module: ModuleType, report: Report) -> None:
    """Add the callback to every Trainer.

    Args:
        module: `transformers.trainer`.
        report: of this rank.
    """
    # before the callbacks of the user: some of those change the values that they are given
    module.DEFAULT_CALLBACKS.append(_callback_class(module.TrainerCallback, report))
    if report.resume is not None and (report.resume / STATE_FILE).is_file():
        _resume_from(module.Trainer, report, report.resume)


def _callback_class(base: type, report: Report) -> type:
    """Return a TrainerCallback that passes every event to a `TrainerEvents`."""
    trainings = itertools.count(1)

    class TorchdeckCallback(base):  # type: ignore[misc]  # a class that the program has imported
        """Reports to Torchdeck. Pickled or copied with a trainer, it is a callback that does nothing."""

        def __init__(self) -> None:
            self._events = TrainerEvents(report, trainings)

        def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
            return base, ()

    for event in (
        "train_begin",
        "step_begin",
        "step_end",
        "prediction_step",
        "evaluate",
        "log",
        "save",
        "train_end",
    ):
        setattr(TorchdeckCallback, f"on_{event}", _passing(event, report))
    return TorchdeckCallback


def _passing(event: str, report: Report) -> Callable[..., Any]:
    def on_event(self: Any, *args: Any, **kwargs: Any) -> Any:
        return report.guarded(NAME, f"on_{event}", _pass, self._events, event, *args, **kwargs)

    return on_event


def _pass(events: TrainerEvents, event: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(events, event)(*args, **kwargs)


class TrainerEvents:
    """The events of one Trainer, as its callbacks get them: arguments, state, control, and more by name."""

    def __init__(self, report: Report, trainings: itertools.count[int]) -> None:
        self._report = report
        self._trainings = trainings
        self._stop = StopAgreement(None, "")
        self._stopping = False
        self._between = RankPhase.LOADING
        """Phase outside steps, evaluations and saves."""

    def train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        self._report.claim(NAME)
        self._stop = StopAgreement(self._report.stop_file, f"hf-{next(self._trainings)}")
        self._report.saves_on_stop(saves=self._report.stop_file is not None)
        self._enter(RankPhase.LOADING, state)  # the first step may compile

    def step_begin(self, *_: Any, **__: Any) -> None:
        self._report.begin_step()

    def step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> Any:
        self._report.step(state.global_step, state.max_steps)
        self._between = RankPhase.TRAINING
        if self._stop.reached(state.global_step):
            self._stopping = True
            control.should_save = control.should_training_stop = True
        if control.should_save and not control.should_evaluate:
            self._report.enter(RankPhase.SAVING)
        return control

    def prediction_step(self, *_: Any, **__: Any) -> None:
        self._report.enter(RankPhase.EVALUATING)

    def evaluate(self, _args: Any, _state: Any, control: Any, **_: Any) -> None:
        self._report.enter(RankPhase.SAVING if control.should_save else self._between)

    def log(self, _args: Any, state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
        if logs:
            self._report.metrics(logs, state.global_step)

    def save(self, *_: Any, **__: Any) -> None:
        self._report.enter(self._between)

    def train_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        self._report.saves_on_stop(saves=False)
        self._between = RankPhase.STOPPING if self._stopping else RankPhase.DONE
        self._enter(self._between, state)

    def _enter(self, phase: RankPhase, state: Any) -> None:
        self._report.enter(phase, step=state.global_step, total=state.max_steps)


def _resume_from(trainer: type, report: Report, checkpoint: Path) -> None:
    """Let the first training resume from a checkpoint, unless the program names one itself."""
    original = trainer.train  # type: ignore[attr-defined]  # a class that the program has imported

    def resumed(given: tuple[Any, ...], named: dict[str, Any]) -> bool:
        asked = given[0] if given else named.get("resume_from_checkpoint")
        first, report.resume = report.resume is not None, None
        return first and not asked

    @functools.wraps(original)
    def train(self: Any, *args: Any, **kwargs: Any) -> Any:
        if report.guarded(NAME, "resume", resumed, args, kwargs):
            kwargs.pop("resume_from_checkpoint", None)
            args = (str(checkpoint), *args[1:])
        return original(self, *args, **kwargs)

    trainer.train = train  # type: ignore[attr-defined]  # as above
