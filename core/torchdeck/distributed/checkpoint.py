"""Positions in a batch plan, under the module name that scripts of another library import. It needs no torch.

Checkpoints of a training are in `torchdeck.distributed.checkpoints`.
"""

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
