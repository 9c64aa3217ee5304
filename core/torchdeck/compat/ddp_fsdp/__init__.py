"""Functions around DistributedDataParallel and FSDP, for a training loop of your own."""

from torchdeck.compat.ddp_fsdp.checkpoints import load_checkpoint_distributed, save_checkpoint_distributed
from torchdeck.compat.ddp_fsdp.ranks import (
    cleanup_distributed,
    get_rank,
    get_world_size,
    is_main_process,
    setup_distributed,
)
from torchdeck.compat.ddp_fsdp.sampler import DistributedSampler
from torchdeck.compat.ddp_fsdp.wrapping import FSDP, wrap_model_ddp, wrap_model_fsdp

__all__ = [
    "FSDP",
    "DistributedSampler",
    "cleanup_distributed",
    "get_rank",
    "get_world_size",
    "is_main_process",
    "load_checkpoint_distributed",
    "save_checkpoint_distributed",
    "setup_distributed",
    "wrap_model_ddp",
    "wrap_model_fsdp",
]
