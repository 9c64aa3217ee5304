"""Training by a class in a script of one's own: started by torchrun, by hand, by Torchdeck, or as it is."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import nn
from torch.optim import Optimizer

from torchdeck.distributed.batches import Collate
from torchdeck.distributed.fit import datasets
from torchdeck.distributed.fit.history import History, HistoryCallback
from torchdeck.distributed.fit.losses import Score, make_loss
from torchdeck.distributed.fit.optimizers import OwnOptimizer, own_optimizer
from torchdeck.distributed.fit.options import check_work_left, chosen_strategy, fitted, make_settings
from torchdeck.distributed.fit.resume_point import ResumePoint
from torchdeck.distributed.fit.session import Session
from torchdeck.distributed.fit.training import Training
from torchdeck.distributed.group.agreement import check_agreement
from torchdeck.distributed.recipe import Recipe
from torchdeck.distributed.settings import DistributedSettings
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.trainer.callback import Callback
from torchdeck.distributed.units import Blocks
from torchdeck.environment import DistributedConfig, RunContext


class DistributedTrainer:
    """Trains a model on as many ranks as there are; every rank runs the same script.

        with DistributedTrainer(model, loss=nn.CrossEntropyLoss(), lr=1e-3, metrics=["accuracy"]) as trainer:
            history = trainer.fit(x, y, epochs=3, validation_split=0.1)
            print(trainer.evaluate(x_test, y_test))

    The ranks meet at the first call that needs them, unless they have met before, and begin with the weights
    of rank 0; so a model must fit into the memory of each rank before it is sharded. Inside a Torchdeck run
    it reports progress, metrics and samples, saves into the run's folder, goes on from where the run resumes,
    and returns from `fit` early when the run is asked to stop, with `history.finished` False and all of it
    saved; outside it prints what `verbose` asks for.

    Args:
        model: not wrapped, on any device; it holds the weights throughout.
        loss: `loss(output, target)`, the mean over a batch, such as nn.CrossEntropyLoss(); the last of a
            batch is its target, the rest are the model's arguments. Or a function whose first parameter is
            called `model`: `loss(model, batch)`, which returns a mean, (mean, weight) or (mean, weight,
            metrics).
        optimizer: "adamw", "adam" or "sgd", with the options below; an optimizer over the model's parameters;
            or a function from parameters to one, such as functools.partial(AdamW, lr=1e-3).
        lr: peak learning rate; 1e-3 unless the optimizer is one's own, which has its own.
        metrics: further means beside `loss(output, target)`: name → function of both; "accuracy" is known.
        strategy: a name, a mapping like the [distributed] table of a run.toml, or a strategy; None is ddp, or
            single on one rank.
        environment: this rank among the others; None: what the launcher's variables say.
        precision: "fp32", "bf16" or "fp16".
        accumulation: microbatches of each rank in an optimizer step.
        blocks: model → its blocks, for strategies that shard block by block.
        collate: samples → batch, for data sets whose samples default_collate does not know.
        workers: processes that load data ahead, on each rank.
        callbacks: are told what happens.
        checkpoint_dir: where checkpoints go, shared by all ranks; None: the run's folder inside a Torchdeck
            run, else nothing is saved.
        checkpoint_every: steps between two checkpoints, "auto", or "epoch"; None: one at the end.
        checkpoint: further options as in the [checkpoint] table: keep_last, keep_best, background, ...
        resume: a checkpoint to go on from, or a folder of them; "auto": the newest in `checkpoint_dir`, if
            there is one. A Torchdeck run that is resumed goes on from its own newest instead.
        verbose: rank 0 prints a line every `log_every` steps; a Torchdeck run always has them.
        log_every: steps between two rows of metrics.
        stats_every: as in the [telemetry] table; callbacks get the statistics in StepResult, too.
        profile_steps: as in the [telemetry] table; outside a run traces are written as trace-rankN.json.gz
            into the working directory.
        training: weight_decay, betas, momentum, clip, schedule, warmup_steps, min_lr_ratio, patience,
            min_delta, ema, check_every, compile, activation_checkpointing, deterministic, seed, batch_plan
            and balance, as in the [training] table.

    Raises:
        TypeError, ValueError: an argument cannot be used; for those of the tables it is SettingsError, a
            ValueError.
        LauncherVariableError: the launcher's variables contradict each other.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        loss: Callable[..., Any],
        optimizer: str | Optimizer | Callable[[Any], Optimizer] = "adamw",
        lr: float | None = None,
        metrics: Mapping[str, Score | str] | Iterable[str] = (),
        strategy: str | Mapping[str, Any] | DistributedSettings | DistributedStrategy | None = None,
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
        **training: Any,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model is {type(model).__name__}: give a torch.nn.Module")
        for callback in callbacks:
            if not isinstance(callback, Callback):
                raise TypeError(f"a callback is {type(callback).__name__}: make it a subclass of Callback")
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
        """Of all calls of `fit`."""

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
        """The model, as it was given; under FSDP its parameters are this rank's shards once it trains."""
        return self._model

    @property
    def step(self) -> int:
        """Optimizer steps done since the very start; 0 before the first `fit`."""
        position = self._training.position
        return 0 if position is None else position.step

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
    ) -> History:
        """Train to the end of `epochs` epochs or `steps` optimizer steps, counted since the very start.

        What an earlier call or a checkpoint has done counts: fit(x, epochs=2) and then fit(x, epochs=5)
        trains three epochs more, of the same data. A schedule is that of the newest call's total, so of
        "cosine" the rate rises again where a call follows that had come to its end. Patience goes on over
        calls, and begins anew in one that follows an early end.

        Args:
            x: tensors, numpy arrays, or tuples or dicts of them, whose first dimension counts samples; or a
                map-style data set. All of it, the same on every rank: the ranks divide it.
            y: targets beside `x`.
            epochs: give this or `steps`.
            steps: optimizer steps.
            microbatch: samples of one forward pass on one rank.
            validation_data: like `x`; (x, y) where there is a `y`.
            validation_split: share of `x` held out instead, cut by the seed.
            validate_every: steps between two looks at it; None: at the end of each epoch.
            validation_batches: at most so many microbatches of it, spread evenly; None: all of it.

        Returns:
            `history`, the same on every rank.

        Raises:
            TypeError, ValueError: an argument cannot be used, or there is nothing left to train.
            RecipeError: model, data or loss cannot be trained, or the loss is not finite.
            AgreementError: ranks have different arguments, models or data.
            CheckpointError: a checkpoint cannot be read or written.
            PositionError: training would go on with other data than it began with.
        """
        began = time.monotonic()
        seed = self._settings.training.seed
        data, validation = datasets.training_and_validation(
            x, y, validation_data, validation_split, seed=seed, in_rows=self._rows
        )
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
        if self._own_optimizer is not None:
            settings = self._own_optimizer.in_settings(settings)
        if self._training.position is not None:
            check_work_left(self._training.position, epochs=epochs, steps=steps)
        check_agreement(self.strategy.group, settings.to_be_same())
        for callback in self._callbacks:
            callback.stop_reason = ""  # of an earlier call
        recorder = HistoryCallback(self.history)
        recipe = with_data(self._recipe, data, validation)
        finished = self._training.run(settings, recipe, [recorder, *self._callbacks])
        self.history.world_size = self.strategy.world_size
        self.history.effective_batch_size = (
            microbatch * settings.training.accumulation * self.strategy.world_size
        )
        recorder.finish(self.strategy.group, time.monotonic() - began, finished=finished)
        return self.history

    def evaluate(self, x: Any, y: Any = None, *, microbatch: int = 32) -> dict[str, float]:
        """Means over all of `x`: `loss` and each metric, the same on every rank and at any world size.

        Args:
            x: as in `fit`; the ranks divide it, each sample counts once.
            y: targets beside `x`.
            microbatch: samples of one forward pass.

        Raises:
            TypeError, ValueError: an argument cannot be used, or `x` is empty.
            RecipeError: the loss is not finite.
            AgreementError: ranks were given different numbers of samples.
        """
        data = datasets.as_dataset(x, y, in_rows=self._rows)
        if len(data) == 0:
            raise ValueError("there is nothing to evaluate: the data has no samples")
        if microbatch < 1:
            raise ValueError(f"microbatch is {microbatch}; right is 1 or more")
        return self._training.evaluate(data, microbatch)

    def save_checkpoint(self, directory: str | Path | None = None) -> Path:
        """Save everything that training goes on from; every rank calls it, in a callback's `step` too.

        Args:
            directory: of checkpoints, shared by all ranks; None: `checkpoint_dir`.

        Returns:
            The checkpoint: a folder in `directory` that is named after the step.

        Raises:
            ValueError: there is no directory, or nothing was trained yet.
            CheckpointError: it could not be written; earlier checkpoints are as they were.
        """
        if directory is None and not self._settings.checkpoint.directory:
            raise ValueError("there is no place for the checkpoint: give a directory, or checkpoint_dir")
        return self._training.save(Path(directory or self._settings.checkpoint.directory))

    def load_checkpoint(self, checkpoint: str | Path) -> Path:
        """Take weights and optimizer state of a checkpoint; the next `fit` goes on where it was saved.

        It may be of another strategy or world size.

        Args:
            checkpoint: its folder, or a directory of them: then the newest sound one.

        Returns:
            The checkpoint that was taken.

        Raises:
            CheckpointError: there is none, it is damaged, or of another model or optimizer.
        """
        return self._training.load(checkpoint)

    def close(self) -> None:
        """Leave the other ranks, unless the script had joined them itself; nothing may follow."""
        self._training.close(self._callbacks)
        self._callbacks = []


# Model, loss and data that are given in memory, as the recipe that the trainer takes.


def given_recipe(
    model: nn.Module,
    loss: Callable[[Any, Any], Any],
    blocks: Blocks | None,
    collate: Collate | None,
    optimizer: OwnOptimizer | None,
) -> Recipe:
    """A recipe of no data yet; `loss` as `make_loss` gives it."""
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
    """The recipe for one call of fit; `validation` is None where there is none."""
    return dataclasses.replace(recipe, build_data=lambda _, part: training if part == "train" else validation)
