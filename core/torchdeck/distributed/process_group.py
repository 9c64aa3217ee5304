"""The ranks together: joining, adding numbers up over all of them, leaving."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
import torch.distributed as dist

from torchdeck.distributed.rendezvous import join
from torchdeck.environment import DistributedConfig, Place
from torchdeck.recipes.errors import RecipeError


def choose_device(place: Place, backend: str) -> torch.device:
    """The device of this rank: the GPU of its local rank where the launcher made GPUs visible, else the CPU.

    Raises:
        RecipeError: nccl without a GPU for this rank.
    """
    visible = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if visible > place.local_rank:
        return torch.device("cuda", place.local_rank)
    if backend == "nccl" or visible:
        raise RecipeError(
            f"rank {place.rank} is local rank {place.local_rank} and sees {visible} GPUs: lower "
            "distributed.nproc, "
            f'name more devices, or set distributed.devices = "cpu"'
        )
    return torch.device("cpu")


class PendingSum:
    """A sum over all ranks that is under way."""

    def __init__(self, values: torch.Tensor, work: dist.Work | None) -> None:
        self._values = values
        self._work = work

    def wait(self) -> list[float]:
        """The sums, once every rank has brought in its part."""
        if self._work is not None:
            self._work.wait()
        return self._values.tolist()


class ProcessGroup:
    """The default process group, or this rank alone; joined on creation where nobody has joined it before.

    Args:
        place: this rank.
        backend: "gloo" or "nccl".
        timeout: how long a collective may wait for the other ranks, seconds.
        alone: do not join anything; sums are then the rank's own.

    Raises:
        RendezvousError: a rank did not come within `timeout`; the message names it.
        RecipeError: nccl without a GPU for this rank.
    """

    def __init__(self, place: Place, *, backend: str, timeout: float, alone: bool = False) -> None:
        self.rank = place.rank
        self.world_size = place.world_size
        self.device = choose_device(place, backend)
        self._joined = not alone
        self._ours = self._joined and not dist.is_initialized()
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        if self._ours:
            config = DistributedConfig.from_env(**dataclasses.asdict(place), timeout=timeout)
            join(config, backend=backend, device=self.device if backend == "nccl" else None)

    def sum(self, values: Sequence[float]) -> list[float]:
        """Each of `values` added up over all ranks in float64; the same on every rank."""
        return self._reduce(values, dist.ReduceOp.SUM)

    def start_sum(self, values: torch.Tensor) -> PendingSum:
        """Begin to add up `values`, shape (n,), on this rank's device, while it goes on computing."""
        work = dist.all_reduce(values, async_op=True) if self._joined else None
        return PendingSum(values, work)

    def minimum(self, values: Sequence[float]) -> list[float]:
        """The least of each of `values` over all ranks."""
        return self._reduce(values, dist.ReduceOp.MIN)

    def close(self) -> None:
        """Leave the group, unless somebody else had joined it; no collective may follow."""
        if self._ours:
            dist.destroy_process_group()
        self._joined = self._ours = False

    def _reduce(self, values: Sequence[float], operation: dist.ReduceOp.RedOpType) -> list[float]:
        if not self._joined:
            return [float(value) for value in values]
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, op=operation)
        return tensor.tolist()
