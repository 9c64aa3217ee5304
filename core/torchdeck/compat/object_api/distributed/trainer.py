"""A trainer with a configuration object per call, over `torchdeck.distributed.DistributedTrainer`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, overload

from torch import nn
from torch.optim import Optimizer

from torchdeck.compat.object_api.distributed.parallel import MakesOptimizer
from torchdeck.compat.object_api.distributed.training import (
    DistributedTrainingConfig,
    DistributedTrainingHistory,
)
from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.distributed.fit import trainer as library
from torchdeck.distributed.group.processes import get_rank, get_world_size, is_main_process

_ACCURACY = "accuracy"


class DistributedTrainer:
    """Trains a classifier on all ranks; every rank runs the same script with the same data.

    Args:
        model: not wrapped; it holds the weights.
        loss_fn: `loss(output, target)`, the mean over a batch.
        optimizer: an optimizer over the model's parameters, or a function that makes one, such as
            AdamOptimizer(0.001).
    """

    @arguments()
    def __init__(
        self, model: nn.Module, loss_fn: Callable[..., Any], optimizer: Optimizer | MakesOptimizer
    ) -> None:
        self._model = model
        self._loss = loss_fn
        self._optimizer = optimizer
        self._trainer: library.DistributedTrainer | None = None
        self._options: dict[str, Any] = {}
        self._loaded: Path | None = None
        self._epochs_done = 0

    @overload
    def fit(self, x: Any, y: Any, config: DistributedTrainingConfig, /) -> DistributedTrainingHistory: ...
    @overload
    def fit(
        self, x: Any, y: Any, x_val: Any, y_val: Any, config: DistributedTrainingConfig, /
    ) -> DistributedTrainingHistory: ...
    @arguments(own_checks=True)
    def fit(self, x: Any, y: Any, *rest: Any) -> DistributedTrainingHistory:
        """Train for `config.epochs` more epochs: fit(x, y, config) or fit(x, y, x_val, y_val, config).

        After `load_checkpoint`, training continues up to that number of epochs in all.

        Returns:
            The history of all calls, the same on every rank.

        Raises:
            ArgumentError: other arguments are given; an option is out of range; data cannot be trained on in
                its order.
            RecipeError: model, data or loss cannot be trained.
            AgreementError: ranks have different arguments, models or data.
        """
        validation, config = _divided(rest)
        if not config.shuffle:
            raise ArgumentError(
                "shuffle is False",
                "this trainer reads a permutation of the data in each epoch",
                "leave it True, or write a loop with DistributedSampler(shuffle=False)",
            )
        trainer = self._for(config)
        epochs = self._epochs_done + config.epochs
        history = trainer.fit(
            x,
            y,
            epochs=epochs,
            microbatch=config.batch_size,
            validation_data=validation,
            validation_split=None if validation is not None else config.validation_split or None,
        )
        self._epochs_done, self._loaded = epochs, None
        return DistributedTrainingHistory.of(history)

    @arguments()
    def evaluate(self, x: Any, y: Any) -> tuple[float, float]:
        """Return loss and accuracy over all of the data, the same on every rank."""
        found = self._ready().evaluate(x, y)
        return found["loss"], found[_ACCURACY]

    @arguments()
    def save_checkpoint(self, path: str | Path) -> Path:
        """Save the state of training in the folder `path`; every rank calls it. Return the checkpoint.

        Raises:
            ValueError: nothing was trained yet.
            CheckpointError: it could not be written; earlier checkpoints are unchanged.
        """
        return self._ready().save_checkpoint(path)

    @arguments()
    def load_checkpoint(self, path: str | Path) -> None:
        """Load the newest checkpoint in `path`; the next `fit` continues from it.

        Raises:
            CheckpointError: there is none, it is damaged, or it is of another model or optimizer.
        """
        self._ready().load_checkpoint(path)
        self._loaded = Path(path)
        self._epochs_done = 0

    def is_master(self) -> bool:
        """Return whether this is rank 0."""
        return is_main_process()

    def get_rank(self) -> int:
        """Return the rank, from 0."""
        return get_rank()

    def get_world_size(self) -> int:
        """Return the number of ranks."""
        return get_world_size()

    def _ready(self) -> library.DistributedTrainer:
        return self._trainer or self._for(DistributedTrainingConfig(verbose=False))

    def _for(self, config: DistributedTrainingConfig) -> library.DistributedTrainer:
        """Return the library's trainer with the options of `config`."""
        options = _options(config)
        if self._trainer is not None and self._options == options:
            return self._trainer
        if self._epochs_done:
            raise ArgumentError(
                "training has begun with other options",
                fix="change only epochs, batch_size and validation_split from one fit to the next",
            )
        if self._trainer is not None:
            self._trainer.close()
        self._trainer = library.DistributedTrainer(
            self._model, loss=self._loss, optimizer=self._optimizer, metrics=[_ACCURACY], **options
        )
        self._options = options
        if self._loaded is not None:
            self._trainer.load_checkpoint(self._loaded)
        return self._trainer


def _options(config: DistributedTrainingConfig) -> dict[str, Any]:
    """Return the options of the library's trainer."""
    saves = bool(config.checkpoint_dir) and config.checkpoint_every_n_epochs > 0
    return {
        "checkpoint_dir": config.checkpoint_dir or None,
        "checkpoint": {"every_epochs": config.checkpoint_every_n_epochs} if saves else None,
        "verbose": config.verbose,
        "log_every": config.log_every_n_batches,
        "seed": config.seed,
    }


def _divided(rest: tuple[Any, ...]) -> tuple[tuple[Any, Any] | None, DistributedTrainingConfig]:
    """Return validation data and config from the arguments after x and y."""
    if len(rest) not in (1, 3) or not isinstance(rest[-1], DistributedTrainingConfig):
        raise ArgumentError(
            f"fit has {2 + len(rest)} arguments",
            fix="call fit(x, y, config) or fit(x, y, x_val, y_val, config)",
        )
    return (rest[0], rest[1]) if len(rest) == 3 else None, rest[-1]
