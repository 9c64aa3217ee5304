"""What one rank gives to a save, all of the same moment of training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from torchdeck.distributed.checkpoints.model_state import model_fingerprint
from torchdeck.distributed.checkpoints.rank_file import render_rank_file
from torchdeck.distributed.checkpoints.staging import Staging
from torchdeck.distributed.checkpoints.state import TrainState
from torchdeck.distributed.checkpoints.trainer_file import TrainerFile

MODEL_PREFIX = "model."


@dataclass(frozen=True)
class Snapshot:
    """Everything of a checkpoint, ready to be written."""

    position: Mapping[str, Any]
    trainer_file: bytes
    rank_file: bytes
    tensors: dict[str, torch.Tensor]
    """Of model and optimizers; training's own memory, or a copy."""
    model_fingerprint: str


def take_snapshot(state: TrainState, step: int, staging: Staging | None = None) -> Snapshot:
    """The state after `step` steps.

    Args:
        state: of training.
        step: optimizer steps done.
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
    return Snapshot(
        position=dict(state.position),
        trainer_file=trainer.render(),
        rank_file=render_rank_file(parts),
        tensors=tensors if staging is None else staging.copy(tensors),
        model_fingerprint=model_fingerprint(listing),
    )
