"""Work of real ranks in tests of DeepSpeed: `measure("support.deepspeed.deepspeed_jobs:work", jobs)`.

DeepSpeed is imported once, before the ranks are forked, and jobs run one after the other, so that a later one
may load what an earlier one saved.
"""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.optim import AdamW

from support.deepspeed.zero_ranks import Scaled, held_by, make_optimizer
from support.ranks.measured_ranks import Job, measure
from support.ranks.no_object_collectives import UnpickledError
from support.ranks.wrapped_ranks import refused
from support.system.deepspeed_python import deepspeed_python
from support.training.equivalence import train
from torchdeck.distributed.recipe_loading import load_recipe
from torchdeck.distributed.strategies.base import DistributedStrategy

RECIPE = str(Path(__file__).parents[2] / "fakes" / "masked_recipe.py")


def run_jobs(jobs: list[Job]) -> list[list[Any]]:
    """Each job's results by rank, under the Python that has DeepSpeed."""
    python: Any = deepspeed_python()
    return measure("support.deepspeed.deepspeed_jobs:work", jobs, python=python)


def work(job: Job) -> Any:
    """One job on one rank: what `job["do"]` names, else a training of `support.training.equivalence`."""
    actions = {
        action.__name__: action for action in (train, copy, save_as_deepspeed, hold, refused, unpickle)
    }
    return actions[job.get("do", "train")](job)


def unpickle(_job: Job) -> str:
    """Why an object collective of DeepSpeed's own communication fails here; empty if it does not."""
    deepspeed = importlib.import_module("deepspeed")
    deepspeed.init_distributed("gloo")
    try:
        deepspeed.comm.all_gather_object([None, None], "anything")
    except UnpickledError as error:
        return str(error)
    return ""


def copy(job: Job) -> dict[str, Any]:
    """Load checkpoint `from` and save that into `to`: under another strategy, at another world size."""
    config = {"strategy": job["strategy"], "deepspeed": job.get("deepspeed", {})}
    with DistributedStrategy.from_config(config, precision=job.get("precision", "fp32")) as strategy:
        torch.manual_seed(job.get("seed", 99))
        recipe = load_recipe(RECIPE)
        model = recipe.build_model({})
        model.embedding.requires_grad_(not job.get("frozen", False))
        wrapped = strategy.wrap_model(model, recipe.blocks)
        # in groups like those of our trainer
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        members = [[p for p in trained if (p.dim() >= 2) == matrices] for matrices in (True, False)]
        made = AdamW([{"params": group} for group in members], lr=0.5, fused=True)
        optimizer = strategy.prepare_optimizer(wrapped, made)
        if "from" in job:
            strategy.load(job["from"], model, optimizer)
        strategy.save(job["to"], model, optimizer, step=1)
        return {"lr": [group["lr"] for group in optimizer.param_groups]}


def save_as_deepspeed(job: Job) -> dict[str, Any]:
    """A checkpoint as DeepSpeed itself writes it into `to`; `digest` of the weights that are in it."""
    config = {"strategy": "deepspeed", "deepspeed": job["deepspeed"]}
    with DistributedStrategy.from_config(config, precision=job["precision"]) as strategy:
        torch.manual_seed(7)
        model = load_recipe(RECIPE).build_model({})
        weights = digest(model.state_dict())
        wrapped = strategy.wrap_model(model)
        optimizer: Any = strategy.prepare_optimizer(wrapped, AdamW(model.parameters()))
        optimizer._engine.save_checkpoint(job["to"], tag="global_step1")
        return weights


def hold(job: Job) -> dict[str, int]:
    """Bytes by part that a rank of our strategy holds when its second step begins, of `shapes`."""
    config = {"strategy": "deepspeed", "deepspeed": job["deepspeed"]}
    with DistributedStrategy.from_config(config, precision=job["precision"]) as strategy:
        model = nn.Sequential(*(Scaled(shape, trainable=True) for shape in job["shapes"]))
        wrapped = strategy.wrap_model(model)
        case = {"optimizer": "adamw", "vectors_apart": True}
        optimizer: Any = strategy.prepare_optimizer(wrapped, make_optimizer(model, case))
        for last in (False, True):
            with strategy.accumulate(wrapped, last=True):
                strategy.backward(wrapped(torch.ones(())))
            if not last:
                strategy.clip_grad_norm(model, 1.0)
                strategy.optimizer_step(optimizer)
                optimizer.zero_grad()
        found = held_by(optimizer._engine, {})
        del found["rest"]
        return found


def digest(weights: dict[str, torch.Tensor]) -> dict[str, list[Any]]:
    """Type, shape and sum of each tensor."""
    return {
        name: [str(value.dtype), list(value.shape), value.double().sum().item()]
        for name, value in sorted(weights.items())
    }


def saved_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor of the one checkpoint under `folder`, by its name in it."""
    (metadata,) = folder.rglob(".metadata")
    file = folder / f"read-{time.monotonic_ns()}.pt"
    dcp_to_torch_save(metadata.parent, file)
    found: dict[str, torch.Tensor] = torch.load(file, weights_only=True)
    file.unlink()
    return found
