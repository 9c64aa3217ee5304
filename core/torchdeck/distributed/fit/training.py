"""The one training that all calls of fit continue, and that is saved, loaded and evaluated in between."""

from __future__ import annotations

import dataclasses
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.contract.checkpoints.choose import choose_checkpoint
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.contract.run_states import RankPhase
from torchdeck.data.step_order import DataPosition
from torchdeck.distributed.checkpoints.manager import load_training
from torchdeck.distributed.fit import datasets
from torchdeck.distributed.fit.rank_session import Session
from torchdeck.distributed.group.agreement import require_same
from torchdeck.distributed.group.process_group import ProcessGroup
from torchdeck.distributed.rank_settings import RecipeSettings
from torchdeck.distributed.recipe_loading import Recipe
from torchdeck.distributed.trainer.callback import Callback
from torchdeck.distributed.trainer.evaluation import Evaluation
from torchdeck.distributed.trainer.hooks import Phases
from torchdeck.distributed.trainer.step import TrainingParts
from torchdeck.distributed.trainer.stopping import StopFlag
from torchdeck.distributed.trainer.trainer import Trainer


class Training:
    """State of the training between calls.

    Args:
        session: the model on its ranks.
        resume: checkpoint to start from, if any.
    """

    def __init__(self, session: Session, resume: ResumePoint) -> None:
        self._session = session
        self._resume = resume
        self._trainer: Trainer | None = None
        self._stop = StopSignal(StopFlag(session.context.stop_file, session.strategy.rank))

    @property
    def position(self) -> DataPosition | None:
        """Return its position; None before the first call."""
        return None if self._trainer is None else self._trainer.position

    def run(self, settings: RecipeSettings, recipe: Recipe, callbacks: Sequence[Callback]) -> bool:
        """Train to the end given by `settings`; return whether it was reached without a stop."""
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
        """Return means over a non-empty data set, with the weights from which training would continue."""
        parts, session = self._session.parts(), self._session
        session.strategy.group.call("evaluate")
        self._resume.load_what_waits(parts)
        require_same(session.strategy.group, {"samples to evaluate": len(data)})
        limit = -(-len(data) // microbatch)
        collate = session.recipe.collate or datasets.collate
        evaluation = Evaluation(parts, data, collate, microbatch=microbatch, limit=limit)
        phases = Phases(session.hooks, compiles=session.settings.training.compile)
        step = 0 if self.position is None else self.position.step
        values = evaluation.run(lambda size: phases.compute(RankPhase.EVALUATING, step, lambda: [size]))
        phases.enter(RankPhase.DONE, step)
        return {name.removeprefix("validation_"): value for name, value in values.items()}

    def save(self, directory: Path) -> Path:
        """Save a checkpoint of the current state and return it.

        Raises:
            ValueError: nothing was trained yet.
        """
        if self._trainer is None:
            raise ArgumentError("there is nothing to save", "nothing was trained yet", "call fit first")
        self._session.strategy.group.call("save_checkpoint", f"step {self._trainer.position.step}")
        return self._trainer.save(directory)

    def load(self, checkpoint: str | Path) -> Path:
        """Restore the state of a checkpoint; return the one that was used."""
        parts = self._session.parts()
        parts.strategy.group.call("load_checkpoint")
        folder = self._resume.load(parts, checkpoint)
        self._trainer = None
        return folder

    def close(self, callbacks: Sequence[Callback]) -> None:
        """Close `callbacks`, and leave the other ranks; no further calls may follow."""
        self._session.close(callbacks)
        self._trainer = None


class StopSignal:
    """Handles SIGTERM as a request to finish the step, save and return, in addition to the stop file of a
    run.

    Any rank may receive it; the others learn of it in the reduction of the step.

    Args:
        file: the stop file, for rank 0.
    """

    def __init__(self, file: StopFlag) -> None:
        self._file = file
        self._came = False

    def wished(self) -> bool:
        """Return whether this rank received a request; it stays set."""
        return self._came or self._file.wished()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Treat SIGTERM as a stop request inside this context; restore the previous handler afterwards.

        A script with its own handler keeps it. So does one that trains outside the main thread, where Python
        does not allow setting handlers.
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


class ResumePoint:
    """Pending resume of a training, until it is done.

    Args:
        given: a checkpoint, a folder of them, "auto" for the newest in `directory`, or None.
        of_run: the checkpoint of the resumed Torchdeck run; it is later than `given`.
        directory: directory of the training's checkpoints; empty if it has none.

    Raises:
        ValueError: "auto" without a directory.
    """

    def __init__(self, given: str | Path | None, of_run: Path | None, directory: str) -> None:
        if given == "auto" and not directory:
            raise ArgumentError(
                'resume is "auto", and there is no folder to look in', fix="give checkpoint_dir"
            )
        self._wanted = given if of_run is None else of_run
        self._directory = directory
        self._loaded: Path | None = None

    def folder(self, group: ProcessGroup) -> Path | None:
        """Return the checkpoint; None if there is none, or training already resumed from it. All ranks call
        it.

        Raises:
            CheckpointError: a named checkpoint does not exist, or it is damaged.
            AgreementError: ranks see different ones.
        """
        if self._wanted is None:
            return None
        chosen = choose_checkpoint(Path(self._directory), str(self._wanted)).folder
        require_same(group, {"checkpoint to resume from": chosen.name if chosen else ""})
        return chosen

    def load(self, parts: TrainingParts, checkpoint: str | Path) -> Path:
        """Load a checkpoint into `parts`; training will resume from it. All ranks call it.

        Raises:
            CheckpointError: there is none, it is damaged, or of another model or optimizer.
        """
        found = choose_checkpoint(Path(checkpoint), str(checkpoint)).folder
        if found is None:
            raise CheckpointError(f"there is no checkpoint in {checkpoint}")
        load_training(parts.strategy, found, parts.model, parts.optimizer, parts.tensors())
        self._wanted = self._loaded = found
        return found

    def load_what_waits(self, parts: TrainingParts) -> None:
        """Load the weights from which training will resume; once."""
        waiting = self.folder(parts.strategy.group)
        if waiting is not None and waiting != self._loaded:
            self.load(parts, waiting)

    def went_on(self) -> None:
        """Record that training resumed."""
        self._wanted = None
