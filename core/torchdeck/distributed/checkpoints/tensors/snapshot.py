"""What one rank gives to a save, all of the same moment of training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from torchdeck.distributed.checkpoints.files.rank_file import render_rank_file
from torchdeck.distributed.checkpoints.files.trainer_file import TrainerFile
from torchdeck.distributed.checkpoints.peers import Peers
from torchdeck.distributed.checkpoints.state import TrainState
from torchdeck.distributed.checkpoints.tensors.model_state import model_fingerprint
from torchdeck.distributed.checkpoints.tensors.shares import own_share
from torchdeck.distributed.checkpoints.tensors.staging import Staging

MODEL_PREFIX = "model."


@dataclass(frozen=True)
class Snapshot:
    """Everything of a checkpoint, ready to be written."""

    position: Mapping[str, Any]
    trainer_file: bytes
    rank_file: bytes
    tensors: dict[str, torch.Tensor]
    """This rank's share of model and optimizers; training's own memory, or a copy."""
    names: frozenset[str]
    """Of all tensors this rank knows of: the ranks together have to give them."""
    model_fingerprint: str


def take_snapshot(state: TrainState, step: int, peers: Peers, staging: Staging | None = None) -> Snapshot:
    """The state after `step` steps.

    Args:
        state: of training.
        step: optimizer steps done.
        peers: all ranks; each of those that hold the same tensors gives a share of them.
        staging: copies the tensors, so that training can go on; None: they must not change until all is
            written.

    Raises:
        CheckpointError: something in the state cannot be saved; the message names it.
    """
    parts = state.parts
    listing = parts.listing()
    trainer = TrainerFile(
        step=step,
        position=state.position,
        scheduler=state.scheduler_state,
        scaler=state.scaler_state,
        extra=state.extra,
        model=listing,
        optimizers=parts.describe_optimizers(),
    )
    tensors = {MODEL_PREFIX + name: tensor for name, tensor in parts.model().items()}
    tensors |= parts.optimizer()
    of_model, of_optimizer = parts.alike()
    alike = {MODEL_PREFIX + name for name in of_model} | set(of_optimizer)
    share = own_share(tensors, alike & tensors.keys(), peers.rank, peers.world_size)
    return Snapshot(
        position=dict(state.position),
        trainer_file=trainer.render(),
        rank_file=render_rank_file(parts),
        tensors=share if staging is None else staging.copy(share),
        names=frozenset(tensors),
        model_fingerprint=model_fingerprint(listing),
    )
