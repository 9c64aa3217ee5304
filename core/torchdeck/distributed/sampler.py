"""Samples of a rank as a sampler of torch, for loaders and libraries that ask for one."""

from __future__ import annotations

from collections.abc import Iterator

from torch.utils.data import DistributedSampler as TorchSampler

from torchdeck.data import sampler


class DistributedSampler(sampler.DistributedSampler, TorchSampler[int]):  # type: ignore[misc, override]  # torch's are no properties
    """Samples of one rank, epoch by epoch: `torchdeck.data.DistributedSampler` as a sampler of torch.

    It is a torch.utils.data.DistributedSampler, with its arguments and attributes, so that other libraries
    leave it in place. Arguments as in `torchdeck.data`.
    """

    def __iter__(self) -> Iterator[int]:
        return super().__iter__()
