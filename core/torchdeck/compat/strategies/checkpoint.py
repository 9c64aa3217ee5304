"""Checkpoints of an experiment: the newest one, continuing from it, keeping the last few."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from torch import nn
from torch.optim import Optimizer

from torchdeck.compat.strategies.given import given
from torchdeck.compat.strategies.strategy import DistributedStrategy
from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError, shown
from torchdeck.contract.checkpoints import choose
from torchdeck.contract.checkpoints.manifest import CheckpointError

_FOLDER = "checkpoints"


class LoadsCheckpoints(Protocol):
    """A trainer, such as `torchdeck.distributed.DistributedTrainer`."""

    def load_checkpoint(self, checkpoint: Path, /) -> Any: ...


@arguments()
def find_latest_checkpoint(experiment_dir: str | Path) -> Path | None:
    """Return the newest intact checkpoint in `experiment_dir`/checkpoints; None if there is none.

    Raises:
        CheckpointError: all checkpoints are damaged.
    """
    folder = Path(experiment_dir) / _FOLDER
    if not folder.is_dir():
        return None
    found = choose.find_latest_checkpoint(folder)
    if found is not None:
        return found
    # folders that were given to save_checkpoint, each with one checkpoint
    inside = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    newest_first = sorted(inside, key=lambda path: path.stat().st_mtime, reverse=True)
    looked = [_newest_in(path) for path in newest_first]
    sound = next((found for found in looked if isinstance(found, Path)), None)
    damaged = next((found for found in looked if isinstance(found, CheckpointError)), None)
    if sound is None and damaged is not None:
        raise damaged
    return sound


def _newest_in(folder: Path) -> Path | CheckpointError | None:
    """Return the newest intact checkpoint in `folder`, or why all are damaged; None if there is none."""
    try:
        return choose.find_latest_checkpoint(folder)
    except CheckpointError as error:
        return error


@arguments(own_checks=True)
def auto_resume(config: Any, trainer: LoadsCheckpoints) -> bool:
    """Load the newest checkpoint of `config.experiment.output_dir` into `trainer`.

    Returns:
        Whether there was one.

    Raises:
        CheckpointError: all checkpoints are damaged, or the newest is of another model.
        ArgumentError: `config` names no folder.
    """
    folder = given(config, "experiment.output_dir")
    if folder is None:
        raise ArgumentError(
            "config has no experiment.output_dir", fix="set it to the folder of the experiment"
        )
    latest = find_latest_checkpoint(folder)
    if latest is not None:
        trainer.load_checkpoint(latest)
    return latest is not None


class CheckpointManager:
    """Checkpoints in `output_dir`/checkpoints, of which the newest `keep_last` are kept.

    Args:
        output_dir: folder of the experiment, the same for all ranks; created if missing.
        keep_last: number of checkpoints to keep, at least 1.
    """

    @arguments()
    def __init__(self, output_dir: str | Path, keep_last: int = 3) -> None:
        self.output_dir = Path(output_dir) / _FOLDER
        self.keep_last = keep_last
        self.output_dir.mkdir(parents=True, exist_ok=True)

    @arguments(own_checks=True)
    def save(
        self,
        strategy: DistributedStrategy,
        step: int,
        *,
        model: nn.Module,
        optimizer: Optimizer,
        timeout: float | None = None,
        **state: Any,
    ) -> Path:
        """Save the state after `step` steps, and delete checkpoints that are no longer kept.

        Args:
            strategy: the strategy of the ranks, which all call this.
            step: number of optimizer steps done.
            model: as `wrap_model` returned it.
            optimizer: over its parameters.
            timeout: seconds that a rank waits for the others. Default: the strategy's.
            state: JSON values to save.

        Raises:
            CheckpointError: on every rank; earlier checkpoints are unchanged.
            ArgumentError: `strategy` is not of this package.
        """
        if not isinstance(strategy, DistributedStrategy):
            raise ArgumentError(
                f"strategy is {shown(strategy)}, and not of torchdeck.compat.strategies",
                fix="make it by that package, or use torchdeck.distributed.CheckpointManager",
            )
        return strategy.save_in(
            self.output_dir,
            model,
            optimizer,
            step=step,
            keep_last=self.keep_last,
            state=state,
            timeout=timeout,
        )
