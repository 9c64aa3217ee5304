"""Ranks that exchange values through a strategy: a body for `support.ranks.measured_ranks`."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from support.ranks.measured_ranks import Job


def exchange(job: Job) -> Any:
    """What every method gives this rank; tensors have a row more on each rank."""
    import torch

    from torchdeck.distributed import DistributedStrategy

    with DistributedStrategy.from_config(job["strategy"]) as strategy:
        rank = strategy.rank
        rows = torch.full((rank + 1, 2), float(rank))
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            strategy.print("from", rank, sep="-")
        same = torch.tensor([rank, 10 * rank])
        found = {
            "rows": strategy.gather(rows).tolist(),
            "scalars": strategy.gather(torch.tensor(rank)).tolist(),
            "values": strategy.gather({"rank": rank, "text": "ä" * rank}),
            "sum": strategy.reduce(same).tolist(),
            "mean": strategy.reduce(same, "mean").tolist(),
            "number": [strategy.reduce(float(rank), op) for op in ("sum", "mean", "min", "max")],
            "tensor of the last": strategy.broadcast(same, strategy.world_size - 1).tolist(),
            "value of the first": strategy.broadcast({"of": rank} if rank == 0 else None),
            "printed": said.getvalue(),
            "unchanged": same.tolist(),
        }
        strategy.barrier(timeout=30.0)
        return found


def disagree(job: Job) -> str:
    """What a rank says whose peer calls something else; `job` has the calls of both."""
    import torch

    from torchdeck.distributed import DistributedStrategy, RecipeError

    with DistributedStrategy.from_config("ddp") as strategy:
        call = job["calls"][strategy.rank]
        try:
            eval(call, {"strategy": strategy, "torch": torch})  # noqa: S307 - written in a test
        except RecipeError as error:
            return str(error)
    return "agreed"


def load(job: Job) -> Any:
    """The samples of two epochs of a prepared loader, and what its sampler says."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from torchdeck.distributed import DistributedStrategy

    samples = TensorDataset(torch.arange(job["samples"]))
    with DistributedStrategy.from_config("ddp") as strategy:
        loader = DataLoader(samples, batch_size=2, shuffle=job["shuffle"], drop_last=job["drop_last"])
        mine = strategy.prepare_dataloader(loader, seed=3)
        epochs = [[batch.tolist() for (batch,) in mine] for _ in range(2)]
        return {"epochs": epochs, "length": len(mine), "ranks": mine.sampler.num_replicas}


def sample(job: Job) -> Any:
    """What a sampler without rank and world size takes from the environment, then from the group."""
    import os

    import torch
    from torch.utils.data import Sampler

    from torchdeck.distributed import DistributedSampler, cleanup_distributed, setup_distributed

    launched = DistributedSampler(range(10))
    setup_distributed(backend="gloo")
    for name in ("RANK", "WORLD_SIZE"):
        del os.environ[name]
    joined = DistributedSampler(range(10), seed=job["seed"])
    theirs: Any = torch.utils.data.DistributedSampler(range(10), seed=job["seed"])  # type: ignore[arg-type]  # has a length
    found = [launched.rank, launched.num_replicas, joined.rank, joined.num_replicas]
    cleanup_distributed()
    return [*found, list(joined) == list(theirs), isinstance(joined, Sampler)]


def save_repeatedly(job: Job) -> list[int]:
    """The number of this rank's sockets after each of some saves and loads."""
    import os
    from pathlib import Path

    import torch

    from torchdeck.distributed import DistributedStrategy

    def sockets() -> int:
        links = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 - names only
        return sum(str(link.readlink()).startswith("socket:") for link in links if link.is_symlink())

    counted = []
    with DistributedStrategy.from_config("ddp") as strategy:
        model = torch.nn.Linear(2, 2)
        strategy.wrap_model(model)
        optimizer = torch.optim.SGD(model.parameters())
        for step in range(1, 5):
            strategy.save(job["folder"], model, optimizer, step=step)
            strategy.load(job["folder"], model, optimizer)
            counted.append(sockets())
    return counted
