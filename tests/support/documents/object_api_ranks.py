"""Examples of the object API in real ranks: bodies for `support.ranks.measured_ranks`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DistributedSampler as TorchSampler
from torch.utils.data import TensorDataset

import torchdeck.compat.object_api as cx
from support.documents.ddp_fsdp_ranks import CLASSES, WIDTH, batch_of, weights
from support.ranks.measured_ranks import Job
from torchdeck.distributed.group.agreement import AgreementError
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.environment import LauncherVariableError


def network(seed: int = 0) -> Any:
    """A small classifier, built like the example's."""
    torch.manual_seed(seed)
    model = cx.SequentialModel()
    model.add(cx.LinearModule(WIDTH, 8))
    model.add(cx.ReLUModule())
    model.add(cx.LinearModule(8, CLASSES))
    return model


def points(size: int) -> tuple[Tensor, Tensor]:
    """Inputs and classes that a linear model can learn."""
    x = torch.randn(size, WIDTH, generator=torch.Generator().manual_seed(5))
    return x, (x[:, :CLASSES] * 2).argmax(1)


def quiet_config(**values: Any) -> Any:
    config = cx.distributed.DistributedTrainingConfig()
    config.verbose = False
    for name, value in values.items():
        assert hasattr(config, name), name
        setattr(config, name, value)
    return config


def body(job: Job) -> Any:
    """Called in each rank."""
    return BODIES[job["body"]](job)


def script(job: Job) -> Any:
    """The training script."""
    cx.distributed.init()
    model = network()
    trainer = cx.distributed.DistributedTrainer(model, cx.CrossEntropyLoss(), cx.AdamOptimizer(0.02))
    config = cx.distributed.DistributedTrainingConfig()
    config.epochs = 10
    config.batch_size = 8
    config.verbose = False
    history = trainer.fit(*points(96), config)
    path = Path(job["folder"]) / f"model_of_{trainer.get_rank()}.cyxmodel"
    if trainer.is_master():
        model.save(path)
        again = network(seed=3)
        again.load(path)
        assert weights(again) == weights(model)
    cx.distributed.finalize()
    return {
        "losses": history.train_losses,
        "saved": path.exists(),
        "weights": weights(model),
        "left": not cx.distributed.is_initialized(),
    }


def functions(job: Job) -> Any:
    """State before, in and after; joined from the environment or by a configuration."""
    before = cx.distributed.is_initialized()
    join = cx.distributed.initialize if job.get("spelled out") else cx.distributed.init
    if job.get("by config"):
        config = cx.distributed.DistributedConfig()
        config.rank = int(os.environ.pop("RANK"))
        config.world_size = int(os.environ.pop("WORLD_SIZE"))
        config.local_rank = int(os.environ.pop("LOCAL_RANK"))
        config.master_port = int(os.environ.pop("MASTER_PORT"))
        join(config)
    else:
        join()
    state = [
        cx.distributed.is_initialized(),
        cx.distributed.get_rank(),
        cx.distributed.get_world_size(),
        cx.distributed.get_local_rank(),
        cx.distributed.is_master(),
    ]
    dist.barrier()  # a rank that leaves at once would close connections that others still open
    cx.distributed.finalize()
    return {"before": before, "state": state, "after": cx.distributed.is_initialized()}


def parallel(job: Job) -> Any:
    """Forward, backward and update by hand, with accumulation; gradients before and after averaging."""
    cx.distributed.init()
    options = cx.distributed.DDPConfig()
    options.broadcast_parameters = True
    options.bucket_size_mb = 25
    options.find_unused_parameters = False
    rank = cx.distributed.get_rank()
    model, loss_fn = network(seed=rank), cx.CrossEntropyLoss()
    ddp = cx.distributed.DistributedDataParallel(model, options)
    optimizer = cx.AdamOptimizer(0.05)
    steps, losses = job["accumulation"], []
    grad_input = None
    local: list[float] = []
    synced: list[list[float]] = []
    for i in range(job["steps"]):
        x, target = batch_of(rank, i)
        output = ddp.forward(x)
        loss = loss_fn.forward(output, target) / steps
        grad_input = ddp.backward(loss_fn.backward(output, target) / steps)
        losses.append(float(loss.detach()))
        if (i + 1) % steps == 0:
            local = grads(model)
            synced = [[*gradient.flatten().tolist()] for gradient in ddp.sync_gradients()]
            ddp.sync_gradients()
            ddp.update_parameters(optimizer)
    assert grad_input is not None
    return {
        "weights": weights(model),
        "local": local,
        "synced": [number for gradient in synced for number in gradient],
        "grad_input": list(grad_input.shape),
        "info": [ddp.is_master(), ddp.get_rank(), ddp.get_world_size(), ddp.get_model() is model],
        "again": refused(lambda: ddp.backward(torch.ones(4, CLASSES))),
    }


def grads(model: nn.Module) -> list[float]:
    return [
        number
        for parameter in model.parameters()
        if parameter.grad is not None
        for number in parameter.grad.flatten().tolist()
    ]


def reference(world_size: int, steps: int, accumulation: int) -> list[float]:
    """Weights after the same training in one process."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for step in range(steps):
        for rank in range(world_size):
            x, target = batch_of(rank, step)
            loss = nn.functional.cross_entropy(model(x), target)
            (loss / accumulation / world_size).backward()  # type: ignore[no-untyped-call]
        if (step + 1) % accumulation == 0:
            optimizer.step()
            optimizer.zero_grad()
    return weights(model)


def sampled(_: Job) -> Any:
    """Indices by epoch and their batches, next to torch's own sampler."""
    cx.distributed.init()
    rank, world_size = cx.distributed.get_rank(), cx.distributed.get_world_size()
    sampler = cx.distributed.DistributedSampler(dataset_size=101, shuffle=True, seed=42, drop_last=False)
    torchs: TorchSampler[Any] = TorchSampler(
        TensorDataset(torch.arange(101)), world_size, rank, shuffle=True, seed=42
    )
    epochs = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        torchs.set_epoch(epoch)
        epochs.append([sampler.get_indices(), list(torchs)])
    even = cx.distributed.DistributedSampler(dataset_size=101, drop_last=True)
    batches = []
    for kind in (sampler, torchs):
        iterator = cx.distributed.DistributedBatchIterator(kind, batch_size=16)
        iterator.reset(epoch=1)
        taken = []
        while iterator.has_next():
            taken.append(iterator.next())
        iterator.reset(epoch=2)
        batches.append([taken, iterator.num_batches(), iterator.next()])
    return {
        "epochs": epochs,
        "sizes": [sampler.local_size(), sampler.total_size(), sampler.padded_size()],
        "even": [even.local_size(), even.total_size(), even.padded_size(), len(even.get_indices())],
        "batches": batches,
    }


def trained(job: Job) -> Any:
    """The trainer with all options, validation by split and by data, evaluation, and a checkpoint."""
    cx.distributed.init()
    x, y = points(120)
    folder = Path(job["folder"])
    model = network()
    trainer = cx.distributed.DistributedTrainer(model, cx.CrossEntropyLoss(), cx.AdamOptimizer(0.02))
    config = quiet_config(
        epochs=4,
        batch_size=8,
        shuffle=True,
        seed=42,
        log_every_n_batches=10,
        checkpoint_every_n_epochs=2,
        checkpoint_dir=str(folder / "checkpoints"),
        save_on_master_only=True,
        validation_split=0.1,
    )
    history = trainer.fit(x, y, config)
    saved = sorted(
        path.name for path in (folder / "checkpoints").iterdir() if path.is_dir() and path.name[0] != "."
    )
    trainer.save_checkpoint(folder / "model.ckpt")
    loss, accuracy = trainer.evaluate(x, y)
    half = history_of(history)

    other = cx.distributed.DistributedTrainer(network(9), cx.CrossEntropyLoss(), cx.AdamOptimizer(0.02))
    other.load_checkpoint(folder / "model.ckpt")
    loaded = other.evaluate(x, y)
    resumed = history_of(other.fit(x, y, quiet_config(epochs=6, batch_size=8, seed=42, validation_split=0.1)))

    third = cx.distributed.DistributedTrainer(network(), cx.CrossEntropyLoss(), cx.AdamOptimizer(0.02))
    validated = history_of(third.fit(x, y, x[:30], y[:30], quiet_config(epochs=2, batch_size=8)))
    anything: Any = trainer
    return {
        "history": half,
        "evaluated": [loss, accuracy],
        "loaded": list(loaded),
        "resumed": resumed,
        "saved": saved,
        "validated": validated,
        "info": [trainer.is_master(), trainer.get_rank(), trainer.get_world_size()],
        "refused": [
            refused(lambda: trainer.fit(x, y, quiet_config(epochs=1, seed=1))),
            refused(lambda: trainer.fit(x, y, quiet_config(epochs=1, shuffle=False))),
            refused(lambda: anything.fit(x, y)),
        ],
    }


def history_of(history: Any) -> dict[str, Any]:
    return {
        name: getattr(history, name)
        for name in (
            "train_losses",
            "train_accuracies",
            "val_losses",
            "val_accuracies",
            "total_time_seconds",
            "samples_per_second",
            "effective_batch_size",
            "world_size",
        )
    }


def mistakes(job: Job) -> Any:
    """What a rank hears whose configuration or model is wrong."""
    rank = int(os.environ["RANK"])
    config = cx.distributed.DistributedConfig.from_environment()
    config.timeout_ms = 1500
    if job["mistake"] == "no one":
        config.rank, config.world_size, config.local_rank, config.timeout_ms = 1, 2, 1, 400
        return refused(lambda: cx.distributed.init(config))
    if job["mistake"] == "missing":
        config.world_size = 3
        return refused(lambda: cx.distributed.init(config))
    if job["mistake"] == "nccl":
        config.backend = cx.distributed.BackendType.NCCL
        return refused(lambda: cx.distributed.init(config))
    config.timeout_ms = 30000
    cx.distributed.init(config)
    options = cx.distributed.DDPConfig()
    options.broadcast_parameters = False
    model = network(seed=rank)
    return refused(lambda: cx.distributed.DistributedDataParallel(model, options))


def refused(call: Callable[[], object]) -> str:
    try:
        call()
    except (ValueError, TypeError, RuntimeError, RecipeError, AgreementError, LauncherVariableError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


BODIES: dict[str, Callable[[Job], Any]] = {
    "script": script,
    "functions": functions,
    "parallel": parallel,
    "sampled": sampled,
    "trained": trained,
    "mistakes": mistakes,
}
