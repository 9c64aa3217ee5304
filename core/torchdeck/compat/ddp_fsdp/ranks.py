"""Joining and leaving the process group."""

from __future__ import annotations

from torchdeck.distributed.group import processes
from torchdeck.distributed.group.processes import (
    cleanup_distributed,
    get_rank,
    get_world_size,
    is_main_process,
)
from torchdeck.environment import DistributedConfig

__all__ = [
    "cleanup_distributed",
    "get_rank",
    "get_world_size",
    "is_main_process",
    "setup_distributed",
]


def setup_distributed() -> tuple[int, int, int]:
    """Join the process group; a single process joins none.

    `torchdeck.distributed.setup_distributed` explains variables and errors.

    Returns:
        Rank, world size and local rank.
    """
    config = DistributedConfig.from_env()
    if config.is_distributed:
        config = processes.setup_distributed(config)
    return config.rank, config.world_size, config.local_rank
