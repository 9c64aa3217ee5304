"""A small training under every strategy, and the store of its checkpoints."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from support.ranks import checkpoint_ranks as ranks
from torchdeck.distributed.checkpoints.retention import Retention
from torchdeck.distributed.checkpoints.store import CheckpointError, CheckpointStore, TrainState
from torchdeck.distributed.checkpoints.tensors.model_state import unwrap

STEPS = 3


class Net(nn.Module):
    """Small, but with what makes resuming hard: dropout, running statistics, tied and unused parameters."""

    def __init__(self, width: int = 10) -> None:
        super().__init__()
        self.embedding = nn.Embedding(13, width)
        self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.norm = nn.BatchNorm1d(width)
        self.dropout = nn.Dropout(0.25)
        self.unused = nn.Linear(3, 3)
        self.head = nn.Linear(width, 13, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = hidden + self.dropout(torch.relu(block(hidden)))
        logits: torch.Tensor = self.head(self.norm(hidden))
        return logits


def make(strategy: str, rank: ranks.Rank, seed: int = 0) -> TrainState:
    """Model and optimizer under a strategy."""
    torch.manual_seed(seed)
    net = Net()
    model: nn.Module = net
    if strategy == "ddp":
        model = nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)
    elif strategy in ("fsdp", "hsdp"):
        grid = (rank.world_size,) if strategy == "fsdp" else (rank.world_size // 2, 2)
        mesh = init_device_mesh("cpu", grid, mesh_dim_names=("replicate", "shard")[-len(grid) :])
        for block in net.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(net, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(100 * seed + rank.rank)
    random.seed(seed + rank.rank)
    return TrainState(model, [optimizer])


def inner(state: TrainState) -> Any:
    """The Net without what is around it."""
    return unwrap(state.model)


def train(state: TrainState, steps: int) -> list[str]:
    """Losses as exact hexadecimal texts; data from Python's and torch's generators."""
    losses = []
    for _ in range(steps):
        shift = random.randrange(13)  # noqa: S311 - data, not secrets
        tokens = (torch.randint(0, 13, (8,)) + shift) % 13
        loss = nn.functional.cross_entropy(state.model(tokens), tokens)
        state.optimizers[0].zero_grad()
        torch.autograd.backward(loss)
        state.optimizers[0].step()
        losses.append(float(loss.detach()).hex())
    return losses


def digest(tensors: dict[str, torch.Tensor], *, own: bool = False) -> str:
    """SHA-256 over the whole values (`own`: this rank's shards) of all tensors."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name]
        if isinstance(value, DTensor):
            value = value.to_local() if own else value.full_tensor()
        total.update(name.encode() + value.detach().contiguous().numpy().tobytes())
    return total.hexdigest()


def optimizer_digest(state: TrainState) -> str:
    names: dict[torch.Tensor, str] = {param: name for name, param in state.model.named_parameters()}
    flat = {
        f"{names[param]}.{key}": value
        for param, values in state.optimizers[0].state.items()
        for key, value in values.items()
    }
    return digest(flat, own=True)


def open_store(
    folder: Path,
    rank: ranks.Rank,
    strategy: str,
    *,
    keep_last: int = 3,
    attempt: int = 1,
    replicas: int = 0,
) -> CheckpointStore:
    place = (rank.rank, rank.world_size)
    more: dict[str, Any] = {"timeout": 20.0, "replicas": replicas}
    return CheckpointStore(folder, Retention(keep_last), "test-run", attempt, *place, strategy, **more)


def refusal(action: Callable[[], object]) -> str:
    try:
        action()
    except CheckpointError as error:
        return str(error)
    return ""


def fill(state: TrainState, step: int) -> None:
    with torch.no_grad():
        for param in state.model.parameters():
            param.fill_(float(step))
