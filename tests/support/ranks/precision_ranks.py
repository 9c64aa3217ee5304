"""Hand-written loops in each precision, under each strategy: bodies for `support.ranks.measured_ranks`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import SGD

from support.ranks.measured_ranks import Job
from support.ranks.wrapped_ranks import WIDTH, small_model
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.strategies.base import DistributedStrategy

STEPS = 8
ROWS = 8
"""Samples of a global batch."""
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


IDS = 16
"""Rows of the embedding."""


def network(job: Job) -> nn.Sequential:
    """Linear layers; or, with "normed" in the job, also an embedding and a norm, which autocast leaves in
    fp32.
    """
    if not job.get("normed"):
        return small_model()
    torch.manual_seed(0)
    layers = nn.Linear(WIDTH, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, WIDTH)
    return nn.Sequential(nn.Embedding(IDS, WIDTH), *layers)


def inputs(job: Job, step: int) -> Tensor:
    if not job.get("normed"):
        return batch(step)
    return torch.randint(0, IDS, (ROWS,), generator=torch.Generator().manual_seed(step))


def batch(step: int) -> Tensor:
    return torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(step))


def body(job: Job) -> dict[str, Any]:
    """Losses, norms, which steps were made, the loss scale, the weights, and what precisions were seen."""
    if job["config"] is None:
        return by_torch(job)
    with DistributedStrategy.from_config(job["config"], precision=job["precision"]) as strategy:
        model = network(job)
        seen: list[str] = []
        first = next(module for module in model if isinstance(module, nn.Linear))
        first.register_forward_hook(lambda module, args, output: seen.append(str(output.dtype)))  # noqa: ARG005
        wrapped = strategy.wrap_model(model)
        optimizer = strategy.prepare_optimizer(wrapped, SGD(model.parameters(), lr=job["lr"], momentum=0.9))
        found: dict[str, Any] = {"losses": [], "norms": [], "stepped": [], "scales": []}
        share = ROWS // strategy.world_size
        for step in range(STEPS):
            rows = inputs(job, step)[strategy.rank * share : (strategy.rank + 1) * share]
            context: AbstractContextManager[Any] = strategy.autocast() if job["autocast"] else nullcontext()
            with context:
                output = wrapped(strategy.to_device(rows))
                seen.append(str(output.dtype))
                loss = output.float().square().mean() * job["factor"]
            strategy.backward(loss)
            if job["clip"]:
                found["norms"].append(strategy.clip_grad_norm(model, 1.0))
            found["stepped"].append(strategy.optimizer_step(optimizer))
            optimizer.zero_grad()
            found["scales"].append(strategy.scaler.scale)
            found["losses"].append(strategy.group.sum([float(loss)])[0] / strategy.world_size)
        found["seen"] = seen[:2]
        if "folder" in job:
            strategy.save(Path(job["folder"]), model, optimizer, step=STEPS)
            strategy.scaler.scale = 1.0
            strategy.load(Path(job["folder"]), model, optimizer)
            found["restored"] = strategy.scaler.scale
        if job["config"]["strategy"] != "deepspeed":
            found["weights"] = _flat(model)
        return found


def by_torch(job: Job) -> dict[str, Any]:
    """The same with torch's own autocast, scaler and clipping, in one process."""
    model, precision = network(job), job["precision"]
    optimizer = SGD(model.parameters(), lr=job["lr"], momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    found: dict[str, Any] = {"losses": [], "norms": [], "stepped": [], "scales": []}
    for step in range(STEPS):
        with torch.autocast("cpu", dtype=DTYPES[precision], enabled=precision != "fp32"):
            loss = model(inputs(job, step)).float().square().mean() * job["factor"]
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if job["clip"]:
            found["norms"].append(float(nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        before, old = scaler.get_scale(), _flat(model)
        scaler.step(optimizer)
        scaler.update()
        found["stepped"].append(_flat(model) != old)
        found["scales"].append(scaler.get_scale() if before else 1.0)
        optimizer.zero_grad()
        found["losses"].append(float(loss))
    return found | {"weights": _flat(model)}


def _flat(model: nn.Module) -> list[float]:
    whole = (p.full_tensor() if isinstance(p, DTensor) else p for p in model.parameters())
    return [float(value) for tensor in whole for value in tensor.detach().flatten()]


def replaced(job: Job) -> dict[str, Any]:
    """An optimizer made before the model is sharded: given to prepare_optimizer, or stepped as it is."""
    with DistributedStrategy.from_config(job["config"]) as strategy:
        model = small_model()
        early, stepped, foreign = (SGD(m.parameters(), lr=0.5) for m in (model, model, small_model()))
        momentum = SGD(model.parameters(), lr=0.5, momentum=0.9)
        model(batch(0)).square().mean().backward()
        momentum.step()
        wrapped = strategy.wrap_model(model)
        found = {
            name: _refusal(lambda optimizer=optimizer: strategy.prepare_optimizer(wrapped, optimizer))
            for name, optimizer in (("foreign", foreign), ("momentum", momentum))
        }
        before = _flat(model)
        schedule = torch.optim.lr_scheduler.StepLR(early, 1, gamma=0.5)
        optimizer = strategy.prepare_optimizer(wrapped, early)
        strategy.backward(wrapped(batch(1)).square().mean())
        found["step"] = _refusal(stepped.step)
        strategy.optimizer_step(optimizer)
        schedule.step()
        trained = [a != b for a, b in zip(before, _flat(model), strict=True)]
        return found | {"trained": sum(trained) / len(trained), "lr": optimizer.param_groups[0]["lr"]}


def _refusal(action: Any) -> str:
    try:
        action()
    except RecipeError as error:
        return str(error)
    return ""
