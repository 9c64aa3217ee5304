"""One consecutive range of sample indices per rank, all of the same length."""

from __future__ import annotations

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.data.checked import checked_rank, whole_number
from torchdeck.distributed.group.processes import get_rank, get_world_size


class DistributedSampler:
    """Indices of this rank's samples: the rank-th of `world_size` ranges of dataset_size // world_size.

    The remainder at the end of the data set belongs to no rank. `torchdeck.distributed.DistributedSampler`
    shuffles, and leaves nothing out.

    Args:
        dataset_size: number of samples, at least 0.
        batch_size: batch size to remember.
        rank: this rank. Default: that of the process.
        world_size: number of ranks. Default: that of the process group or the environment.

    Raises:
        ValueError: an argument is out of range.
    """

    @arguments(own_checks=True)
    def __init__(
        self, dataset_size: int, batch_size: int, rank: int | None = None, world_size: int | None = None
    ) -> None:
        self.dataset_size = whole_number("dataset_size", dataset_size, 0)
        self.batch_size = whole_number("batch_size", batch_size, 1)
        self.world_size = get_world_size() if world_size is None else world_size
        self.rank = checked_rank(get_rank() if rank is None else rank, self.world_size)
        self.num_samples = self.dataset_size // self.world_size
        self.start_idx = self.rank * self.num_samples
        self.end_idx = self.start_idx + self.num_samples

    def __len__(self) -> int:
        return self.num_samples

    def get_indices(self) -> range:
        """Return the indices of this rank."""
        return range(self.start_idx, self.end_idx)
