"""The one training that all calls of fit go on with, and that is saved, loaded and evaluated in between."""

from __future__ import annotations

import dataclasses
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

from torchdeck.contract.run_states import RankPhase
from torchdeck.data.step_order import DataPosition
from torchdeck.distributed.fit import datasets
from torchdeck.distributed.fit.resume_point import ResumePoint
from torchdeck.distributed.fit.session import Session
from torchdeck.distributed.group.agreement import check_agreement
from torchdeck.distributed.recipe import Recipe
from torchdeck.distributed.settings import RecipeSettings
from torchdeck.distributed.trainer.callback import Callback
from torchdeck.distributed.trainer.evaluation import Evaluation
from torchdeck.distributed.trainer.monitoring.phases import Phases
from torchdeck.distributed.trainer.stop import StopFlag
from torchdeck.distributed.trainer.trainer import Trainer


class Training:
    """Where the training is, from one call to the next.

    Args:
        session: the model among its ranks.
        resume: what it begins from, if it does not begin anew.
    """

    def __init__(self, session: Session, resume: ResumePoint) -> None:
        self._session = session
        self._resume = resume
        self._trainer: Trainer | None = None
        self._stop = StopSignal(StopFlag(session.context.stop_file, session.strategy.rank))

    @property
    def position(self) -> DataPosition | None:
        """How far it is; None before the first call."""
        return None if self._trainer is None else self._trainer.position

    def run(self, settings: RecipeSettings, recipe: Recipe, callbacks: Sequence[Callback]) -> bool:
        """Train to the end that `settings` say; whether it came to it, and was not stopped before."""
        before, context, group = self._trainer, self._session.context, self._session.strategy.group
        parts = self._session.parts()
        trainer = self._trainer = Trainer(
            settings,
            recipe,
            self._session.strategy,
            dataclasses.replace(context, resume=self._resume.folder(group)),
            [*self._session.hooks, *callbacks],
            parts=parts,
            progress=None if before is None else before.progress,
            stop=self._stop,
        )
        self._resume.went_on()
        try:
            with self._stop.listening() if context.run_dir else nullcontext():
                return trainer.run()
        finally:
            trainer.close()

    def evaluate(self, data: Any, microbatch: int) -> dict[str, float]:
        """Means over a data set that has samples, with the weights that training would go on with."""
        parts, session = self._session.parts(), self._session
        self._resume.load_what_waits(parts)
        check_agreement(session.strategy.group, {"samples to evaluate": len(data)})
        limit = -(-len(data) // microbatch)
        collate = session.recipe.collate or datasets.collate
        evaluation = Evaluation(parts, data, collate, microbatch=microbatch, limit=limit)
        phases = Phases(session.hooks, compiles=session.settings.training.compile)
        step = 0 if self.position is None else self.position.step
        values = evaluation.run(lambda size: phases.compute(RankPhase.EVALUATING, step, lambda: [size]))
        phases.enter(RankPhase.DONE, step)
        return {name.removeprefix("heldout_"): value for name, value in values.items()}

    def save(self, directory: Path) -> Path:
        """The checkpoint of where it is.

        Raises:
            ValueError: nothing was trained yet.
        """
        if self._trainer is None:
            raise ValueError("there is nothing to save: nothing was trained yet")
        return self._trainer.save(directory)

    def load(self, checkpoint: str | Path) -> Path:
        """Be where a checkpoint was saved; the one that was taken."""
        folder = self._resume.load(self._session.parts(), checkpoint)
        self._trainer = None
        return folder

    def close(self, callbacks: Sequence[Callback]) -> None:
        """Close `callbacks`, and leave the other ranks; nothing may follow."""
        self._session.close(callbacks)
        self._trainer = None


class StopSignal:
    """Takes SIGTERM for the wish to finish the step, save and return, beside the stop file of a run.

    Any rank may get it; the others hear of it in the reduction of the step.

    Args:
        file: the stop file, for rank 0.
    """

    def __init__(self, file: StopFlag) -> None:
        self._file = file
        self._came = False

    def wished(self) -> bool:
        """Whether this rank was asked; it stays so."""
        return self._came or self._file.wished()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """SIGTERM is a wish in here; afterwards it does what it did before.

        A script that has a handler of its own keeps it, as one that trains in another thread than the main
        one, where Python lets nobody set handlers.
        """
        own = signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        if own or threading.current_thread() is not threading.main_thread():
            yield
            return
        signal.signal(signal.SIGTERM, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - what handlers get
        self._came = True
