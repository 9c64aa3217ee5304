"""A strategy's checkpoints: one call to save, one to load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.optim import Optimizer

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.data.checked import whole_number
from torchdeck.distributed.strategies.collectives import Collectives

if TYPE_CHECKING:
    from torchdeck.distributed.checkpoints.snapshot import LoadedState
    from torchdeck.distributed.checkpoints.tensors.training_tensors import TrainingTensors


class Checkpoints(Collectives):
    """Checkpoints that every strategy and world size can load."""

    def tensors(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> TrainingTensors:
        """Weights and optimizer state as checkpoints store them; `model` as it was given to `wrap_model`."""
        from torchdeck.distributed.checkpoints.tensors.training_tensors import ModuleTensors

        return ModuleTensors(model, optimizers)

    @arguments()
    def save(
        self,
        folder: str | Path,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer],
        *,
        step: int,
        extra: Mapping[str, Any] | None = None,
        keep_last: int = 3,
        timeout: float | None = None,
    ) -> Path:
        """Save weights, optimizer state and every rank's random state as `folder`/step_…; all ranks call
        it.

        Args:
            folder: folder for these checkpoints only, the same for all ranks.
            model: as it was given to `wrap_model`.
            optimizer: one, or several in a fixed order.
            step: number of optimizer steps done.
            extra: any other JSON values to save.
            keep_last: number of newest checkpoints to keep.
            timeout: seconds that a rank waits for the others to call this too, and in each phase. Default:
                the strategy's timeout for the call, 1800 for a phase.

        Returns:
            The checkpoint, complete and on disk.

        Raises:
            CheckpointError: on every rank: it could not be saved, or a rank did not call this; the message
                names it. Earlier checkpoints are unchanged.
        """
        from torchdeck.distributed.checkpoints.manager import save_training

        step = whole_number("step", step, 0)
        return save_training(
            self,
            Path(folder),
            model,
            optimizer,
            step=step,
            extra=extra or {},
            keep_last=keep_last,
            timeout=timeout,
        )

    @arguments()
    def load(
        self,
        folder: str | Path,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer],
        *,
        timeout: float | None = None,
    ) -> LoadedState:
        """Continue from a checkpoint of any strategy and world size; all ranks call it.

        Args:
            folder: a checkpoint, or a folder of checkpoints, of which the newest complete one is loaded.
            model: model to load into, as it was given to `wrap_model`.
            optimizer: optimizer to load into, made as for saving.
            timeout: as in `save`.

        Raises:
            CheckpointError: on every rank: there is none, it is damaged, it is of another model or
                optimizer, or a rank did not call this.
        """
        from torchdeck.distributed.checkpoints.manager import load_training

        return load_training(self, Path(folder), model, optimizer, timeout=timeout)
