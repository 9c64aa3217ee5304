"""Puts a training together: recipe, strategy, data, checkpoint to go on from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from torch.utils.data import default_collate

from torchdeck.data.step_order import DataPosition, StepOrder
from torchdeck.distributed.batches import BatchLoader, SizedDataset
from torchdeck.distributed.checkpoints.manifest import checkpoint_name
from torchdeck.distributed.checkpoints.rng import restore_rng, rng_state
from torchdeck.distributed.seeding import make_deterministic
from torchdeck.distributed.settings import RecipeSettings
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.trainer.cadence import SaveCadence
from torchdeck.distributed.trainer.callback import Callback, Counts
from torchdeck.distributed.trainer.drift import DriftCheck
from torchdeck.distributed.trainer.early_stopping import EarlyStopping
from torchdeck.distributed.trainer.evaluation import Evaluation
from torchdeck.distributed.trainer.loop import LoopParts, TrainingLoop
from torchdeck.distributed.trainer.order import check_collate, make_order
from torchdeck.distributed.trainer.parts import build_parts
from torchdeck.distributed.trainer.phases import Phases
from torchdeck.distributed.trainer.progress import Progress
from torchdeck.distributed.trainer.saving import Saving
from torchdeck.distributed.trainer.setup import build_datasets, loader_workers
from torchdeck.distributed.trainer.step import Stepper, TrainingParts
from torchdeck.distributed.trainer.stop import StopFlag
from torchdeck.environment import RunContext
from torchdeck.recipes.loader import Recipe


class Trainer:
    """One training of one recipe, on one of its ranks.

    Args:
        settings: what to train and how.
        recipe: its model, data and loss.
        strategy: set up already.
        context: the run; where to look for a stop, and what to go on from.
        hooks: who is told what happens.
        parts: model and optimizer to go on with, from `build_parts`; None: they are built here.
        progress: how far training of `parts` is; None: at its beginning, or where `context` resumes.

    Raises:
        RecipeError: the recipe, its data or its settings cannot be trained.
        CheckpointError: the checkpoint to go on from is damaged or of another model.
        PositionError: it is of another data set or batch plan.
        BatchPlanError: the batch plan is damaged, too short, or was built for other data.
    """

    def __init__(
        self,
        settings: RecipeSettings,
        recipe: Recipe,
        strategy: DistributedStrategy,
        context: RunContext,
        hooks: Sequence[Callback] = (),
        *,
        parts: TrainingParts | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._settings = settings
        self._recipe = recipe
        self._strategy = strategy
        self._context = context
        self._closed = False
        phases = Phases(hooks, compiles=settings.training.compile)
        phases.enter("loading", 0)
        if settings.training.deterministic:
            make_deterministic()
        drawn = None if parts is None else rng_state()
        # before the model, and so before the seed: what a data set draws must not change the weights
        datasets = build_datasets(recipe, settings, strategy.group)
        self._identity = identity = datasets.identity
        self._order = order = make_order(settings.training, identity, strategy.place, strategy.group)
        check_collate(order.needs_layout, recipe)
        self.parts = self._built(parts, hooks)
        if drawn is not None:
            restore_rng(drawn)
        progress = progress or Progress(order.start.to_json())
        self._counts = counts = Counts(progress.tokens, progress.samples)
        self._stepper = stepper = Stepper(self.parts, settings.training.clip, progress.tokens_per_sample)
        self._early_stopping = early_stopping = EarlyStopping(
            settings.training.patience, settings.training.min_delta
        )
        self._saving = saving = Saving(
            self.parts, settings.checkpoint, context, order, identity, early_stopping
        )
        saving.evaluated_step = progress.evaluated_step
        position = (
            saving.load(context.resume, stepper, counts)
            if context.resume
            else order.restored(progress.position)
        )
        phases.total = order.total_steps(settings.training.steps, settings.training.epochs, position)
        for hook in hooks:
            hook.begin(order, position)
        loop = LoopParts(
            strategy=strategy,
            stepper=stepper,
            loader=self._loader(datasets.training, order),
            evaluation=self._evaluation(datasets.heldout),
            early_stopping=early_stopping,
            saving=saving,
            cadence=SaveCadence(settings.checkpoint, leads=strategy.is_main_process),
            stop=StopFlag(context.stop_file, strategy.rank),
            phases=phases,
            drift=DriftCheck(strategy, self.parts.model, position.step),
            hooks=hooks,
        )
        self._loop = TrainingLoop(settings, loop, phases.total, position, counts)

    def _built(self, parts: TrainingParts | None, hooks: Sequence[Callback]) -> TrainingParts:
        """`parts`, or new ones; hooks are told."""
        for hook in hooks:
            hook.stop_reason = ""  # it may have asked another trainer
            hook.model_next()
        parts = parts or build_parts(self._settings, self._recipe, self._strategy)
        for hook in hooks:
            hook.built(parts)
        return parts

    def run(self) -> bool:
        """Train; True at the end, False when it was stopped before. See `TrainingLoop.run`."""
        self.parts.wrapped.train()
        return self._loop.run()

    @property
    def position(self) -> DataPosition:
        """Where in the data it is."""
        return self._loop.position

    @property
    def progress(self) -> Progress:
        """How far it is; what follows may be another trainer over the same parts."""
        return Progress(
            self._loop.position.to_json(),
            self._counts.tokens,
            self._counts.samples,
            self._stepper.tokens_per_sample,
            self._saving.evaluated_step,
        )

    def save(self, directory: Path | None = None) -> Path:
        """Save as it stands between two steps; every rank calls it.

        Args:
            directory: of checkpoints; None: the settings' own.

        Returns:
            The checkpoint.

        Raises:
            CheckpointError: it could not be written; earlier checkpoints are as they were.
        """
        own = Path(self._settings.checkpoint.directory)
        directory, step = directory or own, self._loop.position.step
        if directory == own and not self._closed:
            self._saving.save(self._loop.position, self._stepper, self._counts)
            return own / checkpoint_name(step)
        settings = dataclasses.replace(self._settings.checkpoint, directory=str(directory))
        saving = Saving(
            self.parts, settings, self._context, self._order, self._identity, self._early_stopping
        )
        try:
            saving.save(self._loop.position, self._stepper, self._counts)
        finally:
            saving.close()
        return directory / checkpoint_name(step)

    def close(self) -> None:
        """Give back what other runs may want: the checkpoint directory."""
        self._saving.close()
        self._closed = True

    def _loader(self, data: SizedDataset, order: StepOrder) -> BatchLoader:
        return BatchLoader(
            data,
            order,
            rank=self._strategy.rank,
            seed=self._settings.training.seed,
            collate=self._recipe.collate,
            workers=loader_workers(self._settings.data),
            timeout=self._settings.distributed.timeout,
            pin=self._strategy.device.type == "cuda",
        )

    def _evaluation(self, data: SizedDataset | None) -> Evaluation | None:
        if data is None:
            return None
        training = self._settings.training
        collate = self._recipe.collate or default_collate
        return Evaluation(
            self.parts, data, collate, microbatch=training.microbatch, limit=training.eval_batches
        )
