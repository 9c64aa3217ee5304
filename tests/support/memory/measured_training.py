"""A training of a few steps in a real rank, put together by the product's own parts from a job."""

from __future__ import annotations

import json
from pathlib import Path

from support.memory.measured_models import recipe_of
from support.ranks.measured_ranks import Job
from support.ranks.recipe_ranks import recipe_settings
from torchdeck.distributed.precision import Precision
from torchdeck.distributed.rank_settings import RecipeSettings
from torchdeck.distributed.strategies.base import DistributedStrategy, make_strategy
from torchdeck.distributed.trainer.trainer import Trainer
from torchdeck.environment import Place, RunContext


def settings_of(job: Job, folder: Path) -> RecipeSettings:
    """What a rank of `job` is told: its recipe, strategy and tables of a run.toml."""
    values = recipe_settings(
        folder,
        job["recipe"],
        model=job.get("model", {}),
        data=job.get("data", {"max_bytes": 20_000} if job["recipe"] == "byte-gpt" else {}),
        strategy=job["strategy"],
        fsdp=job.get("fsdp", {}),
        ddp=job.get("ddp", {}),
        final=False,
        **job.get("training", {}),
    )
    values["distributed"] |= job.get("distributed", {})
    return RecipeSettings.from_json(json.dumps(values))


def strategy_of(settings: RecipeSettings) -> DistributedStrategy:
    """The strategy of this rank, not set up yet."""
    return make_strategy(settings.distributed, Precision(settings.training.precision), Place.from_env())


def trainer_of(job: Job, settings: RecipeSettings, strategy: DistributedStrategy) -> Trainer:
    """The trainer, ready to run; it saves no checkpoint."""
    return Trainer(settings, recipe_of(job["recipe"]), strategy, RunContext())
