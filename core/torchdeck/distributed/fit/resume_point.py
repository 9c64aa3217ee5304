"""The checkpoint that a training in memory is to go on from."""

from __future__ import annotations

from pathlib import Path

from torchdeck.contract.checkpoints.choose import choose_checkpoint
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.saved_training import load_training
from torchdeck.distributed.group.agreement import check_agreement
from torchdeck.distributed.group.process_group import ProcessGroup
from torchdeck.distributed.trainer.step import TrainingParts


class ResumePoint:
    """Where training goes on, until it has.

    Args:
        given: a checkpoint, a folder of them, "auto" for the newest in `directory`, or None.
        of_run: the checkpoint of the Torchdeck run that is resumed; it is later than whatever was given.
        directory: of the training's checkpoints; empty where it has none.

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
        """The checkpoint; None where there is none, or training went on from it already. All ranks call it.

        Raises:
            CheckpointError: there is none where one was named, or it is damaged.
            AgreementError: ranks see different ones.
        """
        if self._wanted is None:
            return None
        chosen = choose_checkpoint(Path(self._directory), str(self._wanted)).folder
        check_agreement(group, {"checkpoint to resume from": chosen.name if chosen else ""})
        return chosen

    def load(self, parts: TrainingParts, checkpoint: str | Path) -> Path:
        """Take what a checkpoint has into `parts`; training will go on from it. All ranks call it.

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
        """Have weights of what training will go on from; once."""
        waiting = self.folder(parts.strategy.group)
        if waiting is not None and waiting != self._loaded:
            self.load(parts, waiting)

    def went_on(self) -> None:
        """Training did."""
        self._wanted = None
