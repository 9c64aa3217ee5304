"""Checkpoint from which an in-memory training should resume."""

from __future__ import annotations

from pathlib import Path

from torchdeck.contract.checkpoints.choose import choose_checkpoint
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.saved_training import load_training
from torchdeck.distributed.group.agreement import check_agreement
from torchdeck.distributed.group.process_group import ProcessGroup
from torchdeck.distributed.trainer.step import TrainingParts


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
            raise ValueError('resume is "auto" without a checkpoint_dir to look in')
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
        check_agreement(group, {"checkpoint to resume from": chosen.name if chosen else ""})
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
