"""Ranks that were not started alike: bodies for `support.ranks.measured_ranks`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from support.ranks.measured_ranks import Job
from torchdeck.distributed.group.processes import setup_distributed
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.wrapping import wrap_model_ddp, wrap_model_fsdp


def body(job: Job) -> str:
    """What this rank was told."""
    scenarios: dict[str, Callable[[Job], Any]] = {
        function.__name__: function for function in (world_sizes, strategies, functions, models)
    }
    try:
        scenarios[job["body"]](job)
    except RecipeError as error:
        return str(error)
    return ""


def world_sizes(job: Job) -> None:
    """The last rank believes in one rank more."""
    rank = int(os.environ["RANK"])
    os.environ["WORLD_SIZE"] = str(job["world_size"] + (rank == job["world_size"] - 1))
    setup_distributed(timeout=60.0)


def strategies(job: Job) -> None:
    """Each rank has a table of its own, in a group that is there already or not."""
    if job.get("joined"):
        dist.init_process_group("gloo")
    mine = job["each"][int(os.environ["RANK"])]
    if mine is None:
        return
    precision = mine.pop("precision", "fp32")
    DistributedStrategy.from_config(mine, precision=precision).setup()


def functions(job: Job) -> None:
    """The wrapping functions, another one on each rank."""
    model = nn.Linear(3, 2)
    if os.environ["RANK"] == "0":
        wrap_model_ddp(model)
    else:
        wrap_model_fsdp(model, min_params=1)


def models(job: Job) -> None:
    """A model of other names, of another order, or with a part that one rank does not train."""
    with DistributedStrategy.from_config(job["config"]) as strategy:
        parts = {"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)}
        if strategy.rank == 1:
            if job["differ"] == "order":
                parts = dict(reversed(parts.items()))
            elif job["differ"] == "names":
                parts["c"] = parts.pop("b")
            else:
                parts["b"].requires_grad_(False)
        wrapped = strategy.wrap_model(nn.ModuleDict(parts))
        assert isinstance(wrapped, nn.Module)
        assert torch.is_grad_enabled()
