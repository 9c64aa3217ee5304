"""This process as a rank: joining, leaving, and its number."""

from __future__ import annotations

from torchdeck.compat.object_api.distributed.config import DistributedConfig
from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.distributed.group.processes import (
    cleanup_distributed,
    get_local_rank,
    get_rank,
    get_world_size,
    is_initialized,
    is_main_process,
    setup_distributed,
)

__all__ = [
    "finalize",
    "get_local_rank",
    "get_rank",
    "get_world_size",
    "init",
    "initialize",
    "is_initialized",
    "is_master",
]

finalize = cleanup_distributed
is_master = is_main_process


@arguments()
def init(config: DistributedConfig | None = None) -> None:
    """Join the other ranks; returns when all are there.

    Args:
        config: this rank, and where the ranks meet. Default: from the environment.

    Raises:
        LauncherVariableError: the numbers contradict each other.
        RendezvousError: a rank did not arrive within the timeout; the message names it.
        RecipeError: NCCL, and there is no GPU for this rank.
    """
    setup_distributed((config or DistributedConfig.from_environment()).to_library())


initialize = init
