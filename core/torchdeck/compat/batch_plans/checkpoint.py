"""Positions in a batch plan, and their files: the library's own."""

from torchdeck.data.checkpoint_position import (
    CheckpointPosition,
    iter_from_checkpoint,
    load_checkpoint_position,
    save_checkpoint_position,
)

__all__ = [
    "CheckpointPosition",
    "iter_from_checkpoint",
    "load_checkpoint_position",
    "save_checkpoint_position",
]
