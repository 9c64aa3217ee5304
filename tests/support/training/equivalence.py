"""The same training under any strategy, in real ranks forked from one process: losses, norms and weights.

    from support.training.equivalence import REFERENCE, run
    alone, ours = run([REFERENCE, {**REFERENCE, "strategy": "ddp", "world_size": 4, "accumulation": 1}])

A job is an object with `strategy`, `world_size` and `accumulation`; other keys of [training] under
`training`; tables `ddp`, `fsdp`, `hsdp`, `deepspeed`; `folder`, `every` and `resume` (a path) where
checkpoints are wanted; `stats_every` where statistics of tensors are.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from support.ranks.measured_ranks import Job, measure
from support.ranks.recipe_ranks import recipe_settings
from torchdeck.distributed.rank_settings import RecipeSettings
from torchdeck.distributed.recipe_loading import load_recipe
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.trainer.callback import Callback
from torchdeck.distributed.trainer.step import StepResult
from torchdeck.distributed.trainer.trainer import Trainer
from torchdeck.environment import RunContext

GLOBAL_BATCH = 16
SAMPLES = 56
"""The last step of an epoch is half a batch."""
STEPS = 20
REFERENCE: Job = {"strategy": "single", "world_size": 1, "accumulation": 4}
"""One process, four microbatches a step."""
_TABLES = ("ddp", "fsdp", "hsdp", "deepspeed")
_RECIPE = str(Path(__file__).parents[2] / "fakes" / "masked_recipe.py")


@dataclass(frozen=True)
class Trained:
    """What a training was, the same on every rank."""

    losses: list[float]
    norms: list[float]
    """Of the gradient, before clipping."""
    weights: list[str]
    """Of the whole model after the last step, by rank: a hash of what the rank holds."""


def run(jobs: Sequence[Job], *, python: str = sys.executable) -> list[Trained]:
    """Train every job, one after the other; raises where a rank failed, or ranks had different losses."""
    found = []
    for ranks in measure("support.training.equivalence:train", jobs, python=python):
        losses, norms = ranks[0]["losses"], ranks[0]["norms"]
        assert all(rank["losses"] == losses and rank["norms"] == norms for rank in ranks)
        found.append(Trained(losses, norms, [rank["weights"] for rank in ranks]))
    return found


def train(job: Job) -> dict[str, Any]:
    """One training on this rank, by the product's own Trainer."""
    settings = settings_of(job)
    recipe = load_recipe(settings.recipe)
    strategy = DistributedStrategy.from_config(settings.distributed, precision=settings.training.precision)
    strategy.setup()
    followed = Followed()
    context = RunContext(resume=Path(job["resume"]) if "resume" in job else None)
    trainer = Trainer(settings, recipe, strategy, context, [followed])
    trainer.run()
    trainer.close()
    return {
        "losses": followed.losses,
        "norms": followed.norms,
        "weights": hash_of(trainer.parts.model),
        "statistics": followed.statistics,
    }


def settings_of(job: Job) -> RecipeSettings:
    """What a job says, as the ranks are told it."""
    ranks, accumulation = job["world_size"], job["accumulation"]
    usual = {
        "steps": STEPS,
        "microbatch": GLOBAL_BATCH // ranks // accumulation,
        "accumulation": accumulation,
        "lr": 0.02,
        "clip": 0.7,
        "seed": 5,
    }
    values = recipe_settings(
        Path(job.get("folder", ".")),
        job.get("recipe", _RECIPE),
        data={"samples": SAMPLES},
        strategy=job["strategy"],
        every=job.get("every"),
        final=False,
        **{name: job[name] for name in _TABLES if name in job},
        **usual | job.get("training", {}),
    )
    values["telemetry"]["stats_every"] = job.get("stats_every")
    if "folder" not in job:
        values["checkpoint"]["directory"] = ""
    return RecipeSettings.from_json(json.dumps(values))


class Followed(Callback):
    """What the steps were."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.norms: list[float | None] = []
        self.statistics: dict[str, float] = {}
        """The newest."""

    def step(self, result: StepResult) -> None:
        self.losses.append(result.loss)
        self.norms.append(result.grad_norm)
        self.statistics = dict(result.statistics) or self.statistics


def hash_of(model: nn.Module) -> str:
    """Of all this rank holds of the model's state."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        digest.update(name.encode())
        digest.update(local.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
