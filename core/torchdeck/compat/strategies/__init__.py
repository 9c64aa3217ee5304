"""Strategies from a configuration object, their checkpoints, and a launcher."""

from torchdeck.compat.strategies.checkpoint import CheckpointManager, auto_resume, find_latest_checkpoint
from torchdeck.compat.strategies.kinds import (
    DDPStrategy,
    DeepSpeedStrategy,
    FSDPStrategy,
    SingleGPUStrategy,
)
from torchdeck.compat.strategies.launcher import LaunchError, launch_distributed
from torchdeck.compat.strategies.strategy import DistributedStrategy

__all__ = [
    "CheckpointManager",
    "DDPStrategy",
    "DeepSpeedStrategy",
    "DistributedStrategy",
    "FSDPStrategy",
    "LaunchError",
    "SingleGPUStrategy",
    "auto_resume",
    "find_latest_checkpoint",
    "launch_distributed",
]
