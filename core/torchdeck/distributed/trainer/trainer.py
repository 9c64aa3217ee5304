"""Assembles a training: recipe, strategy, data, and the checkpoint to resume from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch.utils.data import default_collate

from torchdeck.contract.checkpoints.manifest import checkpoint_name
from torchdeck.contract.run_states import RankPhase
from torchdeck.data.step_order import DataPosition, StepOrder
from torchdeck.distributed.batches import BatchLoader, SizedDataset
from torchdeck.distributed.checkpoints.files.rank_file import restore_rng, rng_state
from torchdeck.distributed.rank_settings import CheckpointSettings, RecipeSettings
from torchdeck.distributed.recipe_loading import Recipe
from torchdeck.distributed.seeding import make_deterministic
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.trainer.callback import Callback, Counts
from torchdeck.distributed.trainer.divergence import DivergenceCheck
from torchdeck.distributed.trainer.evaluation import Evaluation
from torchdeck.distributed.trainer.hooks import Phases
from torchdeck.distributed.trainer.loop import LoopParts, TrainingLoop
from torchdeck.distributed.trainer.save_schedule import SaveSchedule
from torchdeck.distributed.trainer.saving import Saving
from torchdeck.distributed.trainer.setup import Datasets, build_datasets, build_parts, loader_workers
from torchdeck.distributed.trainer.step import Stepper, TrainingParts
from torchdeck.distributed.trainer.stopping import EarlyStopping, StopFlag, StopSource
from torchdeck.distributed.trainer.training_data import check_collate, in_order_of, make_order
from torchdeck.environment import RunContext


class Trainer:
    """One training of one recipe, on one of its ranks.

    Args:
        settings: what to train and how.
        recipe: its model, data and loss.
        strategy: already set up.
        context: the run; where to poll for a stop, and the checkpoint to resume from.
        hooks: callbacks to notify.
        parts: existing model and optimizer from `build_parts`; None: they are built here.
        progress: training progress of `parts`; None: at the beginning, or where `context` resumes.
        stop: source of stop requests; None: the stop file of `context`.

    Raises:
        RecipeError: the recipe, its data or its settings cannot be trained.
        CheckpointError: the checkpoint to resume from is damaged or of another model.
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
        stop: StopSource | None = None,
    ) -> None:
        self._settings = settings
        self._recipe = recipe
        self._strategy = strategy
        self._context = context
        self._stop = stop or StopFlag(context.stop_file, strategy.rank)
        self._closed = False
        phases = Phases(hooks, compiles=settings.training.compile)
        phases.enter(RankPhase.LOADING, 0)
        if settings.training.deterministic:
            make_deterministic()
        drawn = None if parts is None else rng_state()
        # before the model and therefore before the seed: random draws of a data set must not change the
        # weights
        datasets = build_datasets(recipe, settings, strategy.group)
        self._identity = datasets.identity
        self._order = order = make_order(settings.training, self._identity, strategy.place, strategy.group)
        check_collate(order.needs_layout, recipe)
        datasets = replace(datasets, training=in_order_of(order.sample_names, datasets.training))
        self.parts = self._built(parts, hooks)
        if drawn is not None:
            restore_rng(drawn)
        progress = progress or Progress(order.start.to_json())
        self._counts = Counts(progress.tokens, progress.samples)
        self._stepper = Stepper(self.parts, settings.training.clip, progress.tokens_per_sample)
        self._early_stopping = EarlyStopping(settings.training.patience, settings.training.min_delta)
        self._saving = self._saving_by(settings.checkpoint)
        position = self._start(progress)
        phases.total = order.total_steps(settings.training.steps, settings.training.epochs, position)
        for hook in hooks:
            hook.begin(order, position)
        loop_parts = self._loop_parts(datasets, phases, hooks)
        self._loop = TrainingLoop(settings, loop_parts, phases.total, position, self._counts)

    def _built(self, parts: TrainingParts | None, hooks: Sequence[Callback]) -> TrainingParts:
        """Return `parts`, or new ones; notify the hooks."""
        for hook in hooks:
            hook.stop_reason = ""  # it may hold an earlier trainer's request
            hook.model_next()
        parts = parts or build_parts(self._settings, self._recipe, self._strategy)
        for hook in hooks:
            hook.built(parts)
        return parts

    def run(self) -> bool:
        """Train. Returns True at the end, False if it was stopped early. See `TrainingLoop.run`."""
        self.parts.wrapped.train()
        return self._loop.run()

    @property
    def position(self) -> DataPosition:
        """The position in the data."""
        return self._loop.position

    @property
    def progress(self) -> Progress:
        """The progress of training; another trainer over the same parts can continue from it."""
        return Progress(
            self._loop.position.to_json(),
            self._counts.tokens,
            self._counts.samples,
            self._stepper.tokens_per_sample,
            self._saving.evaluated_step,
            self._early_stopping.state_dict(),
        )

    def save(self, directory: Path | None = None) -> Path:
        """Save the state between two steps; every rank calls it.

        Args:
            directory: directory of checkpoints; None: that of the settings.

        Returns:
            The checkpoint.

        Raises:
            CheckpointError: it could not be written; earlier checkpoints are unchanged.
        """
        own = Path(self._settings.checkpoint.directory)
        directory, step = directory or own, self._loop.position.step
        if directory == own and not self._closed:
            self._saving.save(self._loop.position, self._stepper, self._counts)
            return own / checkpoint_name(step)
        settings = replace(self._settings.checkpoint, directory=str(directory))
        saving = self._saving_by(settings)
        try:
            saving.save(self._loop.position, self._stepper, self._counts)
        finally:
            saving.close()
        return directory / checkpoint_name(step)

    def close(self) -> None:
        """Release the checkpoint directory for other runs."""
        self._saving.close()
        self._closed = True

    def _saving_by(self, settings: CheckpointSettings) -> Saving:
        return Saving(self.parts, settings, self._context, self._order, self._identity, self._early_stopping)

    def _start(self, progress: Progress) -> DataPosition:
        """Return where training begins: where a checkpoint was saved, or at `progress`."""
        self._saving.evaluated_step = progress.evaluated_step
        self._early_stopping.go_on(progress.early_stopping)
        if self._context.resume:
            return self._saving.load(self._context.resume, self._stepper, self._counts)
        return self._order.restored(progress.position)

    def _loop_parts(self, datasets: Datasets, phases: Phases, hooks: Sequence[Callback]) -> LoopParts:
        strategy = self._strategy
        return LoopParts(
            strategy=strategy,
            stepper=self._stepper,
            loader=self._loader(datasets.training, self._order),
            evaluation=self._evaluation(datasets.heldout),
            early_stopping=self._early_stopping,
            saving=self._saving,
            cadence=SaveSchedule(self._settings.checkpoint, leads=strategy.is_main_process),
            stop=self._stop,
            phases=phases,
            drift=DivergenceCheck(strategy, self.parts.model),
            hooks=hooks,
        )

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


@dataclass(frozen=True)
class Progress:
    """Progress of a training: its position and totals."""

    position: dict[str, Any]
    """`DataPosition.to_json()`: checked against the data that training continues with."""
    tokens: float = 0.0
    """Tokens trained on since the start of training."""
    samples: int = 0
    tokens_per_sample: float | None = None
    """`Stepper.tokens_per_sample`."""
    evaluated_step: int | None = None
    """The last step that was evaluated."""
    early_stopping: Mapping[str, Any] = field(default_factory=dict)
    """`EarlyStopping.state_dict()`."""
