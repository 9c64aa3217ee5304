"""A hand-written loop's checkpoints: one call to save, one to go on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.optim import Optimizer

from torchdeck.distributed.agreement import check_agreement
from torchdeck.distributed.checkpoints.choose import choose_checkpoint
from torchdeck.distributed.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.retention import Retention
from torchdeck.distributed.checkpoints.state import LoadedState, TrainState
from torchdeck.distributed.checkpoints.store import CheckpointStore
from torchdeck.environment import RunContext

if TYPE_CHECKING:
    from torchdeck.distributed.strategies.base import DistributedStrategy

Optimizers = Optimizer | Sequence[Optimizer]


def save_training(
    strategy: DistributedStrategy,
    folder: Path,
    model: nn.Module,
    optimizers: Optimizers,
    *,
    step: int,
    extra: Mapping[str, Any],
    keep_last: int,
) -> Path:
    """See `DistributedStrategy.save`."""
    state = _state(strategy, model, optimizers)
    state.extra = dict(extra)
    with _store(strategy, folder, keep_last) as store:
        return store.save(state, step)


def load_training(
    strategy: DistributedStrategy, folder: Path, model: nn.Module, optimizers: Optimizers
) -> LoadedState:
    """See `DistributedStrategy.load`."""
    chosen = choose_checkpoint(folder, str(folder)).folder
    if chosen is None:
        raise CheckpointError(f"there is no checkpoint in {folder}")
    # while a rank looked, another may have seen more of a folder that a network shares
    check_agreement(strategy.group, {"the newest checkpoint": chosen.name})
    with _store(strategy, chosen.parent, keep_last=1) as store:
        return store.load(chosen, _state(strategy, model, optimizers))


def _state(strategy: DistributedStrategy, model: nn.Module, optimizers: Optimizers) -> TrainState:
    each = [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)
    return TrainState(model, each, tensors=strategy.tensors(model, each))


@contextmanager
def _store(strategy: DistributedStrategy, folder: Path, keep_last: int) -> Iterator[CheckpointStore]:
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
