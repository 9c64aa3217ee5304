"""Checkpoints of a hand-written loop: one call to save, one to resume."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, CheckpointError
from torchdeck.distributed.checkpoints.answers import truth
from torchdeck.distributed.checkpoints.loading import load_all
from torchdeck.distributed.checkpoints.resuming import TIMEOUT, peers_of, resume_newest, train_state
from torchdeck.distributed.checkpoints.retention import Retention
from torchdeck.distributed.checkpoints.snapshot import LoadedState, Sharing
from torchdeck.distributed.checkpoints.store import CheckpointStore
from torchdeck.distributed.checkpoints.tensors.training_tensors import TrainingTensors
from torchdeck.environment import RunContext

Optimizers = Optimizer | Sequence[Optimizer]


def save_training(
    strategy: Sharing,
    folder: Path,
    model: nn.Module,
    optimizers: Optimizers,
    *,
    step: int,
    extra: Mapping[str, Any],
    keep_last: int,
) -> Path:
    """See `DistributedStrategy.save`."""
    state = train_state(model, optimizers, strategy)
    state.extra = dict(extra)
    with _store(strategy, folder, keep_last) as store:
        return store.save(state, step)


def load_training(
    strategy: Sharing,
    folder: Path,
    model: nn.Module,
    optimizers: Optimizers,
    tensors: TrainingTensors | None = None,
) -> LoadedState:
    """See `DistributedStrategy.load`; `tensors` is used if more than the strategy's are to be filled."""
    state = train_state(model, optimizers, strategy)
    state.tensors = tensors or state.tensors
    peers = peers_of(strategy, TIMEOUT)
    # in the meantime another rank may have seen more of a network-shared folder
    is_one = peers.first(f"looking into {folder}", (folder / MANIFEST_NAME).exists, truth)
    loaded = load_all(folder, state, peers) if is_one else resume_newest(folder, state, peers)
    if loaded is None:
        raise CheckpointError(f"there is no checkpoint in {folder}")
    return loaded


@contextmanager
def _store(strategy: Sharing, folder: Path, keep_last: int) -> Iterator[CheckpointStore]:
    context = RunContext.from_env()
    store = CheckpointStore(
        folder,
        retention=Retention(keep_last),
        run_id=context.run_id or folder.resolve().name,
        attempt=context.attempt,
        rank=strategy.rank,
        world_size=strategy.world_size,
        strategy=strategy.name,
    )
    try:
        yield store
    finally:
        store.close()
