"""Training by a class in the user's own script: started by torchrun, by hand, by Torchdeck, or directly."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.optim import Optimizer

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError, shown
from torchdeck.data.spellings import MICROBATCH, TRAINER, MicrobatchSpelling
from torchdeck.distributed.batches import Collate
from torchdeck.distributed.fit import datasets
from torchdeck.distributed.fit.options import (
    OwnOptimizer,
    check_work_left,
    chosen_strategy,
    fitted,
    make_settings,
    own_optimizer,
)
from torchdeck.distributed.fit.rank_session import Session
from torchdeck.distributed.fit.training import ResumePoint, Training
from torchdeck.distributed.fit.training_history import History, HistoryCallback
from torchdeck.distributed.fit.wrapped_loss import Score, make_loss
from torchdeck.distributed.fsdp_units import Blocks
from torchdeck.distributed.group.agreement import require_same
from torchdeck.distributed.rank_settings import RecipeSettings, TrainerOptions
from torchdeck.distributed.recipe_loading import Recipe
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.strategies.configs import HasStrategy
from torchdeck.distributed.trainer.callback import Callback
from torchdeck.environment import DistributedConfig, RunContext

if TYPE_CHECKING:
    from typing_extensions import Unpack


class DistributedTrainer:
    """Trains a model on all ranks; every rank runs the same script.

        loss = nn.CrossEntropyLoss()
        with DistributedTrainer(model, loss=loss, lr=1e-3, metrics=["accuracy"]) as trainer:
            history = trainer.fit(x, y, epochs=3, validation_split=0.1)
            print(trainer.evaluate(x_test, y_test))

    The ranks join at the first call that needs them, unless they have joined before, and start with the
    weights of rank 0; so the model must fit into the memory of each rank before it is sharded.

    Inside a Torchdeck run the trainer reports progress, metrics and samples, saves into the run's folder,
    and continues where the run resumes. If the run is asked to stop, it saves and `fit` returns early, with
    `history.finished` False. Outside a run it prints what `verbose` asks for.

    Args:
        model: not wrapped, on any device; it always holds the weights.
        loss: `loss(output, target)`, the mean over a batch, such as nn.CrossEntropyLoss(); the last item of
            a batch is its target, the others are the model's arguments. Or a function whose first parameter
            is called `model`: `loss(model, batch)`, which returns a mean, (mean, weight) or (mean, weight,
            metrics).
        optimizer: "adamw", "adam" or "sgd", with the options below; an optimizer over the model's
            parameters; or a function that makes one of parameters, such as functools.partial(AdamW, lr=1e-3).
        lr: peak learning rate. Default: 1e-3; an optimizer of your own has its own.
        metrics: more means next to `loss(output, target)`: name → function of both; "accuracy" is built in.
        strategy: whatever `DistributedStrategy.from_config` takes, or a strategy. Default: ddp, or single on
            one rank.
        environment: this rank, and where the ranks meet. Default: from the launcher's variables.
        precision: "fp32", "bf16" or "fp16".
        accumulation: microbatches per optimizer step on each rank.
        blocks: function that returns the model's blocks, for strategies that shard by block.
        collate: function that makes a batch of samples, for samples that default_collate does not support.
        workers: data loader processes per rank.
        callbacks: Callback objects.
        checkpoint_dir: folder of the checkpoints, shared by all ranks. Default: the run's folder inside a
            Torchdeck run; else nothing is saved.
        checkpoint_every: steps between checkpoints, "auto", or "epoch". Default: one at the end.
        checkpoint: more options of the [checkpoint] table: keep_last, keep_best, background, ...
        resume: a checkpoint to continue from, or a folder of checkpoints; "auto": the newest in
            `checkpoint_dir`, if there is one. A resumed Torchdeck run continues from its own newest
            instead.
        verbose: rank 0 prints a line every `log_every` steps; always on in a Torchdeck run.
        log_every: steps between rows of metrics.
        stats_every: as in the [telemetry] table; callbacks get the statistics in StepResult, too.
        profile_steps: as in the [telemetry] table; outside a run traces are written as trace-rankN.json.gz
            into the working directory.
        training: weight_decay, betas, momentum, clip, schedule, warmup_steps, min_lr_ratio, patience,
            min_delta, ema, check_every, compile, activation_checkpointing, deterministic, seed, batch_plan
            and balance, as in the [training] table.

    Raises:
        TypeError, ValueError: an argument is invalid; for options of the tables it is SettingsError, a
            ValueError.
        LauncherVariableError: the launcher's variables contradict each other.
    """

    @arguments(also=TRAINER)
    def __init__(
        self,
        model: nn.Module,
        *,
        loss: Callable[..., Any],
        optimizer: str | Optimizer | Callable[[Any], Optimizer] = "adamw",
        lr: float | None = None,
        metrics: Mapping[str, Score | str] | Iterable[str] = (),
        strategy: str | Mapping[str, Any] | HasStrategy | DistributedStrategy | None = None,
        environment: DistributedConfig | None = None,
        precision: str = "fp32",
        accumulation: int = 1,
        blocks: Blocks | None = None,
        collate: Collate | None = None,
        workers: int = 0,
        callbacks: Sequence[Callback] = (),
        checkpoint_dir: str | Path | None = None,
        checkpoint_every: int | str | None = None,
        checkpoint: Mapping[str, Any] | None = None,
        resume: str | Path | None = None,
        verbose: bool = False,
        log_every: int = 1,
        stats_every: int | None = None,
        profile_steps: tuple[int, int] | None = None,
        **training: Unpack[TrainerOptions],
    ) -> None:
        for callback in callbacks:
            if not isinstance(callback, Callback):
                raise ArgumentError(f"a callback is {shown(callback)}", fix="make it a subclass of Callback")
        own = own_optimizer(optimizer, model, lr)
        context = RunContext.from_env()
        self.strategy = chosen_strategy(strategy, precision, environment, by_blocks=blocks is not None)
        if checkpoint_dir is None and context.run_dir is not None:
            checkpoint_dir = context.run_dir / "checkpoints"
        resuming = ResumePoint(resume, context.resume, str(checkpoint_dir or ""))
        self._settings = make_settings(
            self.strategy,
            training={
                **training,
                "optimizer": optimizer if isinstance(optimizer, str) else "adamw",
                "lr": 1e-3 if lr is None else lr,
                "accumulation": accumulation,
            },
            checkpoint={**(checkpoint or {}), "directory": str(checkpoint_dir or "")},
            checkpoint_every=checkpoint_every,
            telemetry={"every": log_every, "stats_every": stats_every, "profile_steps": profile_steps},
            workers=workers,
        )
        self._recipe = given_recipe(model, make_loss(loss, metrics), blocks, collate, own)
        self._session = Session(self.strategy, self._settings, self._recipe, model, context, verbose=verbose)
        self._training = Training(self._session, resuming)
        self._own_optimizer = own
        self._rows = collate is None
        self._model = model
        self._callbacks = list(callbacks)
        self.history = History()
        """History of all calls of `fit`."""

    def __enter__(self) -> DistributedTrainer:  # noqa: PYI034 - Self is of Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def model(self) -> nn.Module:
        """The given model. Under FSDP its parameters are this rank's shards once training has started."""
        return self._model

    @property
    def step(self) -> int:
        """Number of optimizer steps since the start of training; 0 before the first `fit`."""
        position = self._training.position
        return 0 if position is None else position.step

    @arguments(also=MICROBATCH)
    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        epochs: float | None = None,
        steps: int | None = None,
        microbatch: int = 32,
        validation_data: Any = None,
        validation_split: float | None = None,
        validate_every: int | None = None,
        validation_batches: int | None = None,
        **_: Unpack[MicrobatchSpelling],
    ) -> History:
        """Train to `epochs` epochs or `steps` optimizer steps, counted from the start of training.

        Earlier calls and a loaded checkpoint count: fit(x, epochs=2) and then fit(x, epochs=5) trains three
        more epochs on the same data. The schedule spans the total of the newest call, so a "cosine" learning
        rate rises again if a call follows a finished one. Patience continues over calls, and is reset after
        an early end.

        Args:
            x: tensors, NumPy arrays, or tuples or dicts of them, whose first dimension counts samples; or a
                map-style data set. Pass all of it on every rank: the ranks divide it.
            y: targets for `x`.
            epochs: set this or `steps`.
            steps: number of optimizer steps.
            microbatch: samples per forward pass on each rank.
            validation_data: like `x`; (x, y) if there is a `y`.
            validation_split: fraction of `x` to hold out instead, selected by the seed.
            validate_every: steps between validations. Default: at the end of each epoch.
            validation_batches: maximum number of microbatches per validation, spread evenly. Default: all.

        Returns:
            `history`, the same on every rank.

        Raises:
            TypeError, ValueError: an argument is invalid, or there is nothing left to train.
            RecipeError: model, data or loss cannot be trained, or the loss is not finite.
            AgreementError: ranks have different arguments, models or data.
            MissingCallError: a rank did not call `fit`, or another method that all must call.
            CheckpointError: a checkpoint cannot be read or written.
            PositionError: training would continue with other data than it started with.
        """
        began = time.monotonic()
        data, validation = self._data(x, y, validation_data, validation_split)
        settings = fitted(
            self._settings,
            epochs=epochs,
            steps=steps,
            microbatch=microbatch,
            validation_size=len(validation) if validation is not None else 0,
            validate_every=validate_every,
            validation_batches=validation_batches,
        )
        self._session.parts()
        self.strategy.group.call("fit")
        if self._training.position is not None:
            check_work_left(self._training.position, epochs=epochs, steps=steps)
        return self._train(settings, with_data(self._recipe, data, validation), began)

    def _data(self, x: Any, y: Any, validation_data: Any, validation_split: float | None) -> tuple[Any, Any]:
        seed = self._settings.training.seed
        return datasets.training_and_validation(
            x, y, validation_data, validation_split, seed=seed, in_rows=self._rows
        )

    @arguments(also=MICROBATCH)
    def evaluate(
        self, x: Any, y: Any = None, *, microbatch: int = 32, **_: Unpack[MicrobatchSpelling]
    ) -> dict[str, float]:
        """Return the means over all of `x`: `loss` and each metric, the same on every rank and at any world
        size.

        Args:
            x: as in `fit`; the ranks divide it, and each sample counts once.
            y: targets for `x`.
            microbatch: samples per forward pass.

        Raises:
            TypeError, ValueError: an argument is invalid, or `x` is empty.
            RecipeError: the loss is not finite.
            AgreementError: ranks got different numbers of samples.
        """
        data = datasets.as_dataset(x, y, in_rows=self._rows)
        if len(data) == 0:
            raise ArgumentError("there is nothing to evaluate", "the data has no samples", "give some")
        if microbatch < 1:
            raise ArgumentError(f"microbatch is {microbatch}", fix="expected 1 or more")
        return self._training.evaluate(data, microbatch)

    @arguments()
    def save_checkpoint(self, directory: str | Path | None = None) -> Path:
        """Save the whole state of training. Every rank calls it; it may be called in a callback's `step`.

        Args:
            directory: folder of checkpoints, shared by all ranks. Default: `checkpoint_dir`.

        Returns:
            The checkpoint: a folder in `directory`, named after the step.

        Raises:
            ValueError: there is no directory, or nothing was trained yet.
            CheckpointError: it could not be written; earlier checkpoints are unchanged.
        """
        if directory is None and not self._settings.checkpoint.directory:
            raise ArgumentError(
                "there is no place for the checkpoint", fix="give a directory, or checkpoint_dir"
            )
        return self._training.save(Path(directory or self._settings.checkpoint.directory))

    @arguments()
    def load_checkpoint(self, checkpoint: str | Path) -> Path:
        """Load weights and optimizer state of a checkpoint; the next `fit` continues from it.

        It may be from another strategy or world size.

        Args:
            checkpoint: its folder, or a directory of checkpoints, of which the newest intact one is loaded.

        Returns:
            The checkpoint that was loaded.

        Raises:
            CheckpointError: there is none, it is damaged, or it is of another model or optimizer.
        """
        return self._training.load(checkpoint)

    def _train(self, settings: RecipeSettings, recipe: Recipe, began: float) -> History:
        """Train with the ranks' agreement; `began` is the monotonic time at which `fit` was called."""
        if self._own_optimizer is not None:
            settings = self._own_optimizer.in_settings(settings)
        require_same(self.strategy.group, settings.to_be_same())
        for callback in self._callbacks:
            callback.stop_reason = ""  # from an earlier call
        recorder = HistoryCallback(self.history)
        finished = self._training.run(settings, recipe, [recorder, *self._callbacks])
        batch = settings.training.microbatch * settings.training.accumulation
        self.history.world_size = self.strategy.world_size
        self.history.effective_batch_size = batch * self.strategy.world_size
        recorder.finish(self.strategy.group, time.monotonic() - began, finished=finished)
        return self.history

    def close(self) -> None:
        """Leave the process group, unless the script had joined it itself. The trainer cannot be used
        afterwards.
        """
        self._training.close(self._callbacks)
        self._callbacks = []


# In-memory model, loss and data as a recipe for the trainer.


def given_recipe(
    model: nn.Module,
    loss: Callable[[Any, Any], Any],
    blocks: Blocks | None,
    collate: Collate | None,
    optimizer: OwnOptimizer | None,
) -> Recipe:
    """Return a recipe without data yet; `loss` as returned by `make_loss`."""
    return Recipe(
        name="given to DistributedTrainer",
        build_model=lambda _: model,
        build_data=lambda _, __: None,
        loss=loss,
        blocks=blocks,
        collate=collate or datasets.collate,
        build_optimizer=None if optimizer is None else optimizer.build,
    )


def with_data(recipe: Recipe, training: Any, validation: Any) -> Recipe:
    """Return the recipe for one call of fit; `validation` is None if there is none."""
    return dataclasses.replace(recipe, build_data=lambda _, part: training if part == "train" else validation)
