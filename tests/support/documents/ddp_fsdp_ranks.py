"""Examples about DDP and FSDP in real ranks: bodies for `support.ranks.measured_ranks`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, MixedPrecision, ShardingStrategy
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
from torch.distributed.tensor import DTensor
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from support.ranks.measured_ranks import Job
from torchdeck.compat.ddp_fsdp import (
    FSDP,
    DistributedSampler,
    cleanup_distributed,
    get_rank,
    get_world_size,
    is_main_process,
    load_checkpoint_distributed,
    save_checkpoint_distributed,
    setup_distributed,
    wrap_model_ddp,
    wrap_model_fsdp,
)
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.manager import CheckpointManager

WIDTH, CLASSES, STEPS, BATCH = 5, 3, 8, 4


class Classifier(nn.Module):
    """Returns logits and loss, as the example's model does."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.body = nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, CLASSES))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.body(x)
        return logits, functional.cross_entropy(logits, y)


def batch_of(rank: int, step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1000 * rank + step)
    x = torch.randn(BATCH, WIDTH, generator=generator)
    return x, torch.randint(CLASSES, (BATCH,), generator=generator)


def weights(model: nn.Module) -> list[float]:
    """All weights, whole, one number after the other."""
    whole = [p.full_tensor() if isinstance(p, DTensor) else p for p in model.parameters()]
    return [number for tensor in whole for number in tensor.detach().flatten().tolist()]


def bare(model: nn.Module) -> nn.Module:
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    assert isinstance(inner, nn.Module)
    return inner


def step_of(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    rank: int,
    step: int,
    *,
    accumulation: int,
    clip: float,
) -> float:
    """One microbatch: forward, backward, and the update once enough are accumulated; its scaled loss."""
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    _, loss = model(*batch_of(rank, step))
    loss = loss / accumulation
    scaler.scale(loss).backward()
    if (step + 1) % accumulation == 0:
        if clip > 0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return float(loss.detach())


def reference(world_size: int, steps: int, *, accumulation: int = 1, clip: float = 0.0) -> list[float]:
    """Weights after the same training in one process, on the batches of all ranks."""
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    for step in range(steps):
        for rank in range(world_size):
            (model(*batch_of(rank, step))[1] / accumulation / world_size).backward()
        if (step + 1) % accumulation == 0:
            if clip > 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
    return weights(model)


class OwnManager:
    """A checkpoint manager of the script's own: a file per step."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def save_checkpoint(self, *, state: dict[str, Any], step: int) -> None:
        torch.save(state, self.folder / f"step_{step}.pt")


def body(job: Job) -> Any:
    """Called in each rank."""
    return BODIES[job["body"]](job)


def utilities(_: Job) -> Any:
    """The functions before, in and after the group; which wrappers a model gets; this rank's samples."""
    before = [get_rank(), get_world_size(), is_main_process(), dist.is_initialized()]
    rank, world_size, local_rank = setup_distributed()
    inside = [get_rank(), get_world_size(), is_main_process(), dist.is_initialized()]
    ddp = wrap_model_ddp(Classifier(), local_rank)
    policy = functools.partial(size_based_auto_wrap_policy, min_num_params=20)
    fsdp = [wrap_model_fsdp(Classifier()), wrap_model_fsdp(Classifier(), auto_wrap_policy=policy)]
    sampler = DistributedSampler(dataset_size=11, batch_size=2)
    found = {
        "joined": [rank, world_size, local_rank],
        "ddp": isinstance(ddp, DistributedDataParallel),
        "dropped last": list(vars(ddp))[-1],
        "units": [[name for name, m in model.named_modules() if isinstance(m, FSDPModule)] for model in fsdp],
        "indices": list(sampler.get_indices()),
    }
    other = refused(lambda: wrap_model_ddp(Classifier(), local_rank + 1)) if dist.is_initialized() else ""
    cleanup_distributed()
    return {**found, "before": before, "inside": inside, "other": other, "left": not dist.is_initialized()}


def refused(call: Callable[[], object]) -> str:
    try:
        call()
    except (ValueError, CheckpointError) as error:
        return str(error)
    return ""


def training_loop(job: Job) -> Any:
    """The training script: every rank trains, the main process logs and saves with a manager of its own."""
    rank, world_size, local_rank = setup_distributed()
    device = torch.device(f"cuda:{local_rank}" if torch.cuda.is_available() else "cpu")
    model: nn.Module = Classifier(seed=rank).to(device)
    if world_size > 1:
        model = wrap_model_ddp(model, local_rank)
    if job.get("compile"):
        model = torch.compile(model, backend="eager")  # type: ignore[assignment]  # it is callable all the same
    optimizer = torch.optim.AdamW(bare(model).parameters(), lr=0.05)
    manager = OwnManager(job["folder"])
    logged = []
    for step in range(STEPS):
        with nullcontext():
            loss = step_of(model, optimizer, rank, step, accumulation=1, clip=0.0)
        if is_main_process():
            if step % 2 == 0:
                logged.append(f"Step {step}: loss = {loss}")
            if step % 4 == 0:
                manager.save_checkpoint(state={"step": step}, step=step)
    found = {"weights": weights(model), "logged": len(logged), "world_size": get_world_size()}
    cleanup_distributed()
    return found


def accumulation(job: Job) -> Any:
    """Gradients of several steps, clipped once, and the sum of their losses."""
    rank, _, local_rank = setup_distributed()
    model = wrap_model_ddp(Classifier(), local_rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    logged, accumulated = [], 0.0
    for step in range(STEPS):
        accumulated += step_of(
            model, optimizer, rank, step, accumulation=job["accumulation"], clip=job["clip"]
        )
        if (step + 1) % job["accumulation"] == 0:
            if is_main_process() and step % 1 == 0:
                logged.append(f"Step {step}: loss = {accumulated:.4f}")
            accumulated = 0.0
    return {"weights": weights(model), "logged": logged}


def sharded(job: Job) -> Any:
    """FSDP with a mixed precision policy by the name of a dtype, and a training step under it."""
    rank, _, _ = setup_distributed()
    dtype = {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(job["dtype"])
    policy = None
    if dtype is not None:
        policy = MixedPrecision(param_dtype=dtype, reduce_dtype=dtype, buffer_dtype=dtype)
    model = FSDP(
        Classifier(),
        sharding_strategy=getattr(ShardingStrategy, job.get("sharding", "FULL_SHARD")),
        mixed_precision=policy,
        device_id=int(os.environ["LOCAL_RANK"]),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    seen: list[str] = []
    first = next(module for module in model.modules() if isinstance(module, nn.Linear))
    first.register_forward_hook(lambda *given: seen.append(str(given[2].dtype)))
    for step in range(2):
        step_of(model, optimizer, rank, step, accumulation=1, clip=0.0)
    return {
        "sharded": all(isinstance(parameter, DTensor) for parameter in model.parameters()),
        "computed": seen[0],
        "weights": weights(model),
        "refused": [
            refused(lambda: FSDP(Classifier(), sharding_strategy=ShardingStrategy.NO_SHARD)),
            refused(lambda: FSDP(Classifier(), limit_all_gathers=False)),
            refused(lambda: FSDP(Classifier(), mixed_precision=MixedPrecision(param_dtype=torch.int8))),
        ],
    }


def checkpoints(job: Job) -> Any:
    """Train, save, train on; and in another model load and train on from there: the same weights."""
    rank, _, local_rank = setup_distributed()
    wrap: dict[str, Callable[[nn.Module], nn.Module]] = {
        "ddp": lambda model: wrap_model_ddp(model, local_rank),
        "fsdp": wrap_model_fsdp,
    }
    folder = Path(job["folder"])
    scaler = torch.amp.GradScaler("cpu", enabled=False)

    def fresh(seed: int, how: str) -> tuple[nn.Module, torch.optim.Optimizer]:
        model = wrap[how](Classifier(seed))
        return model, torch.optim.AdamW(model.parameters(), lr=0.05)

    def train(model: nn.Module, optimizer: torch.optim.Optimizer, first: int) -> None:
        for step in range(first, first + 3):
            step_of(model, optimizer, rank, step, accumulation=1, clip=0.0)

    model, optimizer = fresh(0, job["saved"])
    train(model, optimizer, 0)
    own = job["manager"] == "own"
    manager = OwnManager(job["folder"]) if own else CheckpointManager(folder)
    save_checkpoint_distributed(model, optimizer, scaler, 3, manager, config={"lr": 0.05})
    train(model, optimizer, 3)
    path = folder / "step_3.pt" if own else folder
    other, its_optimizer = fresh(9, job["loaded"])
    reached = load_checkpoint_distributed(other, its_optimizer, scaler, path)
    loaded = weights(other)
    train(other, its_optimizer, reached)
    missing = refused(lambda: load_checkpoint_distributed(other, its_optimizer, scaler, folder / "none"))
    if isinstance(manager, CheckpointManager):
        manager.close()
    return {
        "step": reached,
        "loaded": loaded,
        "weights": [weights(model), weights(other)],
        "missing": missing,
    }


class FullDisk(OwnManager):
    """A manager whose disk is full."""

    def save_checkpoint(self, *, state: dict[str, Any], step: int) -> None:  # noqa: ARG002 - never written
        raise OSError(28, "No space left on device", f"step_{step}.pt")


def failing(_: Job) -> Any:
    """A manager that fails on rank 0: every rank hears of it."""
    local_rank = setup_distributed()[2]
    model = wrap_model_ddp(Classifier(), local_rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    return refused(lambda: save_checkpoint_distributed(model, optimizer, scaler, 3, FullDisk("")))


BODIES: dict[str, Callable[[Job], Any]] = {
    "utilities": utilities,
    "training_loop": training_loop,
    "accumulation": accumulation,
    "sharded": sharded,
    "checkpoints": checkpoints,
    "failing": failing,
}
