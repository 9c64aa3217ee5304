"""Ranks of torch's process group that read augmented samples: bodies for `support.ranks.measured_ranks`."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from support.ranks.measured_ranks import Job
from torchdeck.compat.augmentation import (
    AugmentationParams,
    get_preset,
    stream_distributed_augmentation_chain,
)


class Augmented(Dataset[torch.Tensor]):
    """Numbers times their brightness."""

    def __init__(self, base: torch.Tensor, params: list[AugmentationParams]) -> None:
        self._base = base
        self._params = params

    def __len__(self) -> int:
        return len(self._params)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self._base[index] * self._params[index]["brightness"]


def loaded(job: Job) -> list[float]:
    """What torch's loader and sampler read on this rank, with gloo in place of NCCL."""
    dist.init_process_group(backend="gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    stream = stream_distributed_augmentation_chain(
        num_samples=8, rank=rank, world_size=world_size, config=get_preset("mild")
    )
    data = Augmented(torch.arange(8.0), list(stream))
    sampler: DistributedSampler[torch.Tensor] = DistributedSampler(data)
    rows = torch.cat(list(DataLoader(data, batch_size=2, sampler=sampler)))
    dist.destroy_process_group()
    found: list[float] = rows.tolist()
    return found
