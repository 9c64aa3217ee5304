"""Ranks, data parallel models, samplers and a trainer."""

from torchdeck.compat.object_api.distributed.config import BackendType, DDPConfig, DistributedConfig
from torchdeck.compat.object_api.distributed.parallel import DistributedDataParallel
from torchdeck.compat.object_api.distributed.ranks import (
    finalize,
    get_local_rank,
    get_rank,
    get_world_size,
    init,
    initialize,
    is_initialized,
    is_master,
)
from torchdeck.compat.object_api.distributed.sampling import DistributedBatchIterator, DistributedSampler
from torchdeck.compat.object_api.distributed.trainer import DistributedTrainer
from torchdeck.compat.object_api.distributed.training import (
    DistributedTrainingConfig,
    DistributedTrainingHistory,
)

__all__ = [
    "BackendType",
    "DDPConfig",
    "DistributedBatchIterator",
    "DistributedConfig",
    "DistributedDataParallel",
    "DistributedSampler",
    "DistributedTrainer",
    "DistributedTrainingConfig",
    "DistributedTrainingHistory",
    "finalize",
    "get_local_rank",
    "get_rank",
    "get_world_size",
    "init",
    "initialize",
    "is_initialized",
    "is_master",
]
