"""Examples about strategies in real ranks: bodies for `support.ranks.measured_ranks`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from support.documents.ddp_fsdp_ranks import CLASSES, WIDTH, batch_of, weights
from support.ranks.measured_ranks import Job
from torchdeck.compat.strategies import (
    CheckpointManager,
    DDPStrategy,
    DistributedStrategy,
    FSDPStrategy,
    SingleGPUStrategy,
    auto_resume,
    find_latest_checkpoint,
)
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checked import SettingsError

CLASSES_OF = {"fsdp": FSDPStrategy, "ddp": DDPStrategy, "single": SingleGPUStrategy}


class Pair(NamedTuple):
    """A batch."""

    inputs: Tensor
    targets: Tensor


def config(strategy: str | None, folder: str = "", **training: Any) -> SimpleNamespace:
    """A configuration object as the examples have it."""
    settings = {"batch_size": 4, "gradient_accumulation": 2, "max_grad_norm": 0.5, "mixed_precision": "no"}
    return SimpleNamespace(
        distributed=SimpleNamespace(strategy=strategy, zero_stage=2, offload=False),
        training=SimpleNamespace(**{**settings, **training}),
        experiment=SimpleNamespace(output_dir=Path(folder)),
    )


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, CLASSES))


def train(
    strategy: DistributedStrategy, model: nn.Module, optimizer: torch.optim.Optimizer, steps: range
) -> list[float | None]:
    """Steps with clipped gradients; their norms before."""
    norms = []
    for step in steps:
        batch = strategy.to_device(Pair(*batch_of(strategy.rank, step)))
        loss = nn.functional.cross_entropy(model(batch.inputs), batch.targets)
        strategy.backward(loss)
        norms.append(strategy.clip_grad_norm(model, strategy.config.training.max_grad_norm))
        optimizer.step()
        optimizer.zero_grad()
    return norms


def reference(world_size: int, steps: int) -> tuple[list[float], list[float]]:
    """Weights and norms of the same training in one process."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    norms = []
    for step in range(steps):
        for rank in range(world_size):
            x, y = batch_of(rank, step)
            (nn.functional.cross_entropy(model(x), y) / world_size).backward()  # type: ignore[no-untyped-call]
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)))
        optimizer.step()
        optimizer.zero_grad()
    return weights(model), norms


def body(job: Job) -> Any:
    """Called in each rank."""
    return BODIES[job["body"]](job)


def trained(job: Job) -> Any:
    """The strategy of a configuration: train, save, train on; load what was saved and train on from there."""
    strategy = DistributedStrategy.from_config(config(job["strategy"], job["folder"]))
    strategy.setup()
    model = strategy.wrap_model(network(seed=strategy.rank))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    norms = train(strategy, model, optimizer, range(3))
    path = Path(job["folder"]) / "deep" / "checkpoint"
    strategy.save_checkpoint(path, model, optimizer, step=3, epoch=1, notes=["kept"])
    norms += train(strategy, model, optimizer, range(3, 5))

    other = strategy.wrap_model(network(seed=7))
    its_optimizer = torch.optim.AdamW(other.parameters(), lr=0.9)
    state = strategy.load_checkpoint(path, other, its_optimizer)
    train(strategy, other, its_optimizer, range(3, 5))

    dicts = strategy.load_checkpoint(path)
    plain = network(seed=8)
    plain.load_state_dict(dicts["model"])
    found = {
        "kind": type(strategy).__name__,
        "place": [strategy.rank, strategy.world_size, strategy.local_rank, strategy.is_main_process],
        "wrapped": [isinstance(model, DistributedDataParallel), isinstance(model, FSDPModule)],
        "norms": norms,
        "weights": [weights(model), weights(other)],
        "state": state,
        "keys": sorted(dicts),
        "saved": weights(plain),
    }
    if strategy.world_size == 1:
        again = torch.optim.AdamW(plain.parameters(), lr=0.9)
        again.load_state_dict(dicts["optimizer"])
        train(strategy, plain, again, range(3, 5))
        found["by state dicts"] = weights(plain)
    strategy.close()
    return found


def zeroed(job: Job) -> Any:
    """DeepSpeed's ZeRO: train, save, train on; load into another model and optimizer and go on from there."""
    os.environ["DS_ACCELERATOR"] = "cpu"
    given = config("deepspeed", job["folder"])
    given.distributed.zero_stage = job["stage"]

    def fresh(seed: int) -> tuple[DistributedStrategy, nn.Module, torch.optim.Optimizer]:
        strategy = DistributedStrategy.from_config(given)
        strategy.setup()
        model = strategy.wrap_model(network(seed=seed))
        return (
            strategy,
            model,
            strategy.prepare_optimizer(model, torch.optim.AdamW(model.parameters(), lr=0.05)),
        )

    strategy, model, optimizer = fresh(0)
    norms = train(strategy, model, optimizer, range(3))
    path = Path(job["folder"]) / "checkpoint"
    strategy.save_checkpoint(path, model, optimizer, step=3)
    norms += train(strategy, model, optimizer, range(3, 5))
    strategy.save_checkpoint(path.with_name("straight"), model, optimizer, step=5)
    other, its_model, its_optimizer = fresh(7)
    state = other.load_checkpoint(path, its_model, its_optimizer)
    train(other, its_model, its_optimizer, range(3, 5))
    other.save_checkpoint(path.with_name("resumed"), its_model, its_optimizer, step=5)
    ends = []
    for name in ("straight", "resumed"):
        plain = network(seed=8)
        plain.load_state_dict(other.load_checkpoint(path.with_name(name))["model"])
        ends.append(weights(plain))
    return {"norms": norms, "state": state, "weights": ends}


def by_class(job: Job) -> Any:
    """Strategies by their own classes; FSDP computes in bf16 unless the configuration says otherwise."""
    given = config(None, mixed_precision=job.get("mixed_precision"))
    with CLASSES_OF[job["strategy"]](given) as strategy:
        model = strategy.wrap_model(network())
        first = next(module for module in model.modules() if isinstance(module, nn.Linear))
        seen: list[str] = []
        first.register_forward_hook(lambda *given: seen.append(str(given[2].dtype)))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        train(strategy, model, optimizer, range(1))
        sharded = all(isinstance(parameter, DTensor) for parameter in model.parameters())
        return {"computed": seen[0], "sharded": sharded, "precision": strategy.library.precision.name}


class Trainer:
    """A trainer of the script's own."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def load_checkpoint(self, checkpoint: Path) -> None:
        self.loaded.append(checkpoint.name)


def managed(job: Job) -> Any:
    """Rotation, the newest checkpoint, and auto_resume, before and after there is one."""
    given = config(job["strategy"], job["folder"])
    trainer = Trainer()
    resumed = [auto_resume(given, trainer), find_latest_checkpoint(given.experiment.output_dir) is None]
    strategy = DistributedStrategy.from_config(given)
    strategy.setup()
    manager = CheckpointManager(given.experiment.output_dir, keep_last=3)
    model = strategy.wrap_model(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    for step in range(1, 6):
        train(strategy, model, optimizer, range(step, step + 1))
        manager.save(strategy, step, model=model, optimizer=optimizer, epoch=step // 2, timeout=60.0)
    dist.barrier()
    kept = sorted(path.name for path in manager.output_dir.iterdir() if path.name.startswith("step"))
    resumed.append(auto_resume(given, trainer))
    latest = find_latest_checkpoint(given.experiment.output_dir)
    assert latest is not None
    state = strategy.load_checkpoint(latest, model, optimizer)
    return {"resumed": resumed, "loaded": trainer.loaded, "kept": kept, "state": state}


def practices(job: Job) -> Any:
    """A strategy that the configuration alone selects; work of the main process; the effective batch."""
    given = config(job["strategy"])
    strategy = DistributedStrategy.from_config(given)
    model = strategy.wrap_model(network())
    logged = []
    if strategy.is_main_process:
        logged.append({"loss": 1.0})
    if dist.is_initialized():
        dist.barrier()
    effective = given.training.batch_size * given.training.gradient_accumulation * strategy.world_size
    return {"logged": len(logged), "effective": effective, "wrapped": type(model).__name__}


def wrong(job: Job) -> Any:
    """What is refused, in one process."""

    class Unnamed(DistributedStrategy):
        """A base class of one's own."""

    one = SingleGPUStrategy({})
    model = one.wrap_model(network())
    optimizer = torch.optim.AdamW(model.parameters())
    own: Any = one.library
    wrong: Any = "5"
    manager = CheckpointManager(job["folder"])
    return {
        "unnamed": refused(lambda: Unnamed.from_config(config("dpp"))),
        "manager": refused(lambda: manager.save(own, 1, model=model, optimizer=optimizer)),
        "timeout": refused(lambda: one.save_checkpoint(job["folder"], model, optimizer, timeout=wrong)),
        "step": refused(lambda: one.save_checkpoint(job["folder"], model, optimizer, step="5")),
        "strategy": refused(lambda: DistributedStrategy.from_config(config("dpp"))),
        "precision": refused(lambda: DDPStrategy(config(None, mixed_precision="fp8"))),
        "abstract": refused(lambda: DistributedStrategy(config(None))),
        "none": refused(lambda: one.load_checkpoint(job["folder"])),
        "half": refused(lambda: one.load_checkpoint(job["folder"], model)),
        "folder": refused(lambda: auto_resume({}, Trainer())),
    }


def refused(call: Callable[[], object]) -> str:
    try:
        call()
    except (SettingsError, CheckpointError, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


BODIES: dict[str, Callable[[Job], Any]] = {
    "trained": trained,
    "zeroed": zeroed,
    "by_class": by_class,
    "managed": managed,
    "practices": practices,
    "wrong": wrong,
}
